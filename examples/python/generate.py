#!/usr/bin/env python3
"""generate.py WEIGHTS.h5 OUT.png [SEED] - a picture from the DCGAN generator that comes with unfurl, as `unfurl generate`
makes it: the same seed gives the same picture. The network is that of the README's C program."""
import sys

from unfurl import check, create, ffi, lib, shape


def draw_latents(context, size):
    """Normal numbers of the library's own generator, by the context's seed."""
    options = ffi.new("uf_store_options *", lib.uf_store_options_default())
    options.dtype = lib.UF_F64
    store = create(lib.uf_store_create_with, context, b"latents", options)
    check(lib.uf_store_declare(store, b"z", shape(1, size), lib.UF_ROLE_PARAMETER))
    check(lib.uf_init_normal(store, b"z", 0.0, 1.0))
    z = ffi.new("double[]", size)
    check(lib.uf_tensor_download(create(lib.uf_store_tensor, store, b"z"), z))
    lib.uf_store_destroy(store)
    return z


def build(context, weights):
    """(1, 64, 1, 1) to (1, 1, 64, 64): four times a transposed convolution, batch norm and ReLU, then tanh."""
    graph = create(lib.uf_graph_create, context)

    def grow(x, name, channels, stride):
        options = ffi.new("uf_conv_transpose2d_options *",
                          lib.uf_conv_transpose2d_options_square(4, stride, stride - 1, False))
        return lib.uf_conv_transpose2d(graph, x, lib.uf_at(weights, name), channels, options)

    x = lib.uf_input(graph, b"z", shape(1, 64, 1, 1))
    for i in range(4):
        x = grow(x, b"main.%d" % (3 * i), 256 >> i, 1 if i == 0 else 2)
        x = lib.uf_batch_norm2d(graph, x, lib.uf_at(weights, b"main.%d" % (3 * i + 1)), ffi.NULL)
        x = lib.uf_relu(graph, x)
    lib.uf_output(graph, b"image", lib.uf_tanh(graph, grow(x, b"main.12", 1, 2)))
    return graph


def generate(path, seed):
    """The image as 64 * 64 floats between -1 and 1."""
    options = ffi.new("uf_context_options *", lib.uf_context_options_default())
    options.seed = seed
    context = create(lib.uf_context_create, options)
    weights = create(lib.uf_store_create, context, b"generator")
    check(lib.uf_store_load_hdf5(weights, path.encode(), ffi.NULL))
    graph = build(context, weights)
    program = create(lib.uf_program_compile, graph, ffi.NULL)
    z = draw_latents(context, 64)
    check(lib.uf_tensor_upload_as(lib.uf_program_input(program, b"z"), lib.UF_F64, z, 64))
    check(lib.uf_program_run(program))
    image = ffi.new("float[]", 64 * 64)
    check(lib.uf_tensor_download(lib.uf_program_output(program, b"image"), image))
    lib.uf_program_destroy(program)
    lib.uf_graph_destroy(graph)
    lib.uf_store_destroy(weights)
    lib.uf_context_destroy(context)
    return image


def save(path, image):
    picture = ffi.new("uf_picture *")
    check(lib.uf_picture_create(64, 64, 1, 8, picture))
    ffi.buffer(picture.samples, 64 * 64)[:] = bytes(int(127.5 * (value + 1.0) + 0.5) for value in image)
    check(lib.uf_png_write(path.encode(), picture))
    lib.uf_picture_free(picture)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    save(sys.argv[2], generate(sys.argv[1], int(sys.argv[3]) if len(sys.argv) == 4 else 0))
    print(f"{sys.argv[2]}, by unfurl {ffi.string(lib.uf_version()).decode()}")
