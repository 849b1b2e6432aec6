/* fuzz_hdf5_seeds.c - the valid files that fuzz_hdf5 damages. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

static void add(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims,
                int packed) {
    static const double values[256] = {1.0, -2.0, 3.5};
    const hid_t links = H5Pcreate(H5P_LINK_CREATE), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (packed) {
        H5Pset_chunk(properties, rank, dims);
        H5Pset_shuffle(properties);
        H5Pset_deflate(properties, 6);
    }
    const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, dims, NULL);
    const hid_t id = H5Dcreate2(file, name, type, space, links, properties, H5P_DEFAULT);
    H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(properties);
    H5Pclose(links);
}

/* `count` datasets: more than 8 names make a group dense in the later formats. */
static void add_many(hid_t file, int count, int nested) {
    const hsize_t dims[] = {3, 5};
    for (int i = 0; i < count; ++i) {
        char name[64];
        snprintf(name, sizeof name, nested ? "main/%d/%s" : "main.%d.%s", nested ? i % 5 : i,
                 nested ? "" : "weight");
        if (nested) {
            snprintf(name + strlen(name), sizeof name - strlen(name), "tensor_%d", i);
        }
        add(file, name, H5T_IEEE_F32LE, 2, dims, nested && i % 4 == 0);
    }
}

/* Cut a file of the 1.8 format where its superblock says that it ends: padding is not worth inputs.
 */
static int trim(const char *path) {
    unsigned char head[36] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return 0;
    }
    const size_t got = fread(head, 1, sizeof head, file);
    fclose(file);
    int64_t end = 0;
    for (size_t i = sizeof head; i > 28; --i) {
        end = end << 8 | head[i - 1];
    }
    return got == sizeof head && truncate(path, end) == 0;
}

/* Files as the library itself writes them. */
static int save_own(const char *path, int count) {
    uf_context *context;
    uf_store *store;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    FUZZ_DEMAND(uf_context_create(&options, &context) == UF_OK);
    FUZZ_DEMAND(uf_store_create(context, "own", &store) == UF_OK);
    for (int i = 0; i < count; ++i) {
        char name[64];
        snprintf(name, sizeof name, "main.%d.weight", i);
        FUZZ_DEMAND(uf_store_declare(store, name, UF_SHAPE(3, 5), UF_ROLE_PARAMETER) == UF_OK);
    }
    const uf_status status = uf_store_save_hdf5(store, path);
    uf_store_destroy(store);
    uf_context_destroy(context);
    return status == UF_OK && trim(path);
}

/* The small files of tests/data/h5, with each kind of index and of links. */
#define COPIED 10
static int copy_small(const char *path, int index) {
    static const char *const names[] = {"symbols",     "chunked",          "compact_links", "types",
                                        "dense_links", "dense_attributes", "fixed_array",   "tree",
                                        "single",      "extensible_array"};
    char source[512], bytes[16384];
    snprintf(source, sizeof source, "%s/tests/data/h5/%s.h5", SOURCE_DIR, names[index]);
    FILE *from = fopen(source, "rb"), *to = fopen(path, "wb");
    if (from == NULL || to == NULL) {
        abort();
    }
    const size_t size = fread(bytes, 1, sizeof bytes, from);
    const int copied = size < sizeof bytes && fwrite(bytes, 1, size, to) == size;
    fclose(from);
    return fclose(to) == 0 && copied;
}

/* ---- small files: each byte of them is changed alone ---- */

static void write_numbers(hid_t id) {
    static double values[30];
    for (int i = 0; i < 30; ++i) {
        values[i] = i * 0.25;
    }
    H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(id);
}

static hid_t create(hid_t file, const char *name, hid_t type, hid_t space, hid_t properties) {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t id = H5Dcreate2(file, name, type, space, links, properties, H5P_DEFAULT);
    H5Pclose(links);
    return id;
}

/* Chunks of 2 x 2 in a dataset of 3 x 5; `grows`: axes without an end. */
static void add_chunks(hid_t file, const char *name, int grows, int checked) {
    const hsize_t dims[] = {3, 5}, chunk[] = {2, 2};
    const hsize_t most[] = {grows > 0 ? H5S_UNLIMITED : 3, grows > 1 ? H5S_UNLIMITED : 5};
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, most);
    H5Pset_chunk(properties, 2, chunk);
    if (checked) {
        H5Pset_fletcher32(properties);
    } else {
        H5Pset_shuffle(properties);
        H5Pset_deflate(properties, 6);
    }
    write_numbers(create(file, name, H5T_IEEE_F32LE, space, properties));
    H5Sclose(space);
    H5Pclose(properties);
}

static void add_compact(hid_t file) {
    const hsize_t dims[] = {3, 5};
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
    H5Pset_layout(properties, H5D_COMPACT);
    write_numbers(create(file, "main/0/weight", H5T_IEEE_F64BE, space, properties));
    H5Sclose(space);
    H5Pclose(properties);
}

static void add_attributes(hid_t file) {
    const double numbers[] = {1.0, 2.5};
    const hsize_t two = 2;
    const char *const text = "a text";
    const hid_t long_word = H5Tcopy(H5T_C_S1), word = H5Tcopy(H5T_C_S1);
    const hid_t one = H5Screate(H5S_SCALAR), pair = H5Screate_simple(1, &two, NULL);
    H5Tset_size(long_word, H5T_VARIABLE);
    H5Tset_size(word, 7);
    const struct {
        const char *name;
        hid_t type, memory, space;
        const void *values;
    } each[] = {{"number 1", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, pair, numbers},
                {"short", word, word, one, text},
                {"long", long_word, long_word, one, (const void *)&text}};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; ++i) {
        const hid_t id =
            H5Acreate2(file, each[i].name, each[i].type, each[i].space, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(id, each[i].memory, each[i].values);
        H5Aclose(id);
    }
    H5Sclose(pair);
    H5Sclose(one);
    H5Tclose(word);
    H5Tclose(long_word);
}

/* bfloat16, under a name of its own. */
static void add_named_type(hid_t file) {
    const hsize_t dims[] = {3, 5};
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE), space = H5Screate_simple(2, dims, NULL);
    H5Tset_fields(type, 15, 7, 8, 0, 7);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 127);
    H5Tcommit2(file, "bfloat16", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    write_numbers(create(file, "main.0.weight", type, space, H5P_DEFAULT));
    H5Sclose(space);
    H5Tclose(type);
}

static void fill_small(hid_t file, int kind) {
    const hsize_t dims[] = {3, 5};
    switch (kind) {
    case 0:
        add(file, "main.0.weight", H5T_IEEE_F32LE, 2, dims, 0);
        break;
    case 1:
        add(file, "main/0/weight", H5T_IEEE_F64LE, 2, dims, 1);
        add(file, "main/1/n", H5T_STD_I64LE, 0, NULL, 0);
        break;
    case 2:
        add_chunks(file, "main.0.weight", 0, 0);
        break;
    case 3:
        add_compact(file);
        break;
    case 4:
        add_chunks(file, "main.0.weight", 0, 1);
        break;
    case 5:
        add_attributes(file);
        add(file, "main.1.n", H5T_STD_U8LE, 0, NULL, 0);
        break;
    case 6:
        add(file, "main/0/weight", H5T_IEEE_F32LE, 2, dims, 0);
        H5Lcreate_soft("/main/0/weight", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_hard(file, "/main/0/weight", file, "hard", H5P_DEFAULT, H5P_DEFAULT);
        break;
    case 7:
        add_chunks(file, "main.0.weight", 1, 0);
        break;
    case 8:
        add_named_type(file);
        add_chunks(file, "grows", 2, 0);
        break;
    default:
        add(file, "main.0.weight", H5T_STD_I16BE, 2, dims, 0);
        add(file, "main.1.n", H5T_STD_U32BE, 0, NULL, 0);
    }
}

/* 0 to 9 in the older format, 10 to 19 the same in the one with checksums. The last of each has a
 * user's block. */
#define SMALL 10
static int small(const char *path, int index) {
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS), created = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_meta_block_size(how, 0);
    if (index >= SMALL) {
        H5Pset_libver_bounds(how, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    } else {
        /* Nodes of few entries: the default fills a small file with empty ones. */
        H5Pset_sym_k(created, 2, 2);
        if (index > 1) {
            H5Pset_istore_k(created, 2);
        }
    }
    if (index % SMALL == SMALL - 1) {
        H5Pset_userblock(created, 512);
    }
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, created, how);
    H5Pclose(created);
    H5Pclose(how);
    fill_small(file, index % SMALL);
    return H5Fclose(file) >= 0;
}

/* ---- as Keras writes ---- */

static void add_texts(hid_t where, const char *name, const char *texts, hsize_t count) {
    const hid_t word = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &count, NULL);
    H5Tset_size(word, 16);
    const hid_t id = H5Acreate2(where, name, word, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(id, word, texts);
    H5Aclose(id);
    H5Sclose(space);
    H5Tclose(word);
}

/* A convolution and a norm, the variables of Keras 3 under numbers, of Keras 2 under names that
 * attributes list; 0: Keras 3, 1: Keras 2, 2: the same as Model.save has it. */
#define KERAS 3
static int keras(const char *path, int kind) {
    static const char layers[2][16] = {"conv", "norm"};
    static const char weights[2][2][16] = {{"conv/kernel:0", "conv/bias:0"},
                                           {"norm/gamma:0", "norm/beta:0"}};
    static const char config[] =
        "{\"config\": {\"layers\": [{\"class_name\": \"Conv2D\", \"config\": {\"name\": \"conv\", "
        "\"padding\": \"valid\", \"kernel_size\": [2, 2], \"strides\": [1, 1]}}]}}";
    const hsize_t kernel[] = {2, 2, 3, 4}, vector = 4;
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t root =
        kind == 2 ? H5Gcreate2(file, "model_weights", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) : file;
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            char name[128];
            if (kind == 0) {
                snprintf(name, sizeof name, "layers/%s/vars/%d", layers[i], j);
            } else {
                snprintf(name, sizeof name, "%s/%s", layers[i], weights[i][j]);
            }
            const int is_kernel = i == 0 && j == 0;
            add(root, name, H5T_IEEE_F32LE, is_kernel ? 4 : 1, is_kernel ? kernel : &vector, 0);
        }
        if (kind > 0) {
            const hid_t group = H5Gopen2(root, layers[i], H5P_DEFAULT);
            add_texts(group, "weight_names", weights[i][0], 2);
            H5Gclose(group);
        }
    }
    if (kind > 0) {
        add_texts(root, "layer_names", layers[0], 2);
    }
    if (kind == 2) {
        const hid_t word = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
        H5Tset_size(word, sizeof config);
        const hid_t id = H5Acreate2(file, "model_config", word, space, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(id, word, config);
        H5Aclose(id);
        H5Sclose(space);
        H5Tclose(word);
        H5Gclose(root);
    }
    return H5Fclose(file) >= 0;
}

/* 0: as h5py writes by default; 1: nested and compressed; 2 and 3: the same in the checksummed
 * format; 4 to 7: the like of them with 40 names; 8 to 10: the library's own, of 40, 100
 * and 12; 11 to 20: tests/data/h5; 21 to 30 and 31 to 40: see small; 41 to 43: see keras. */
int fuzz_seed(int index, const char *path) {
    const hsize_t dims[] = {3, 5}, one = 1;
    static const int own[] = {40, 100, 12};
    if (index >= 11 + COPIED + 2 * SMALL) {
        const int kind = index - 11 - COPIED - 2 * SMALL;
        return kind < KERAS && keras(path, kind);
    }
    if (index >= 11 + COPIED) {
        return small(path, index - 11 - COPIED);
    }
    if (index >= 11) {
        return copy_small(path, index - 11);
    }
    if (index >= 8) {
        return save_own(path, own[index - 8]);
    }
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
    const int many = index >= 4;
    if (index % 4 >= 2) {
        const H5F_libver_t version = many ? H5F_LIBVER_LATEST : H5F_LIBVER_V18;
        H5Pset_libver_bounds(how, version, version);
    }
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, how);
    H5Pclose(how);
    const int nested = index % 2;
    if (many) {
        add_many(file, 40, nested);
        return H5Fclose(file) >= 0;
    }
    add(file, nested ? "main/0/weight" : "main.0.weight", H5T_IEEE_F32LE, 2, dims, nested);
    add(file, nested ? "main/1/n" : "main.1.n", H5T_STD_I64LE, 0, NULL, 0);
    add(file, "f16", H5T_IEEE_F64BE, 1, &one, 0);
    const hid_t word = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(word, H5T_VARIABLE);
    const hid_t note = H5Acreate2(file, "source", word, space, H5P_DEFAULT, H5P_DEFAULT);
    const char *const text = "where it came from";
    H5Awrite(note, word, (const void *)&text);
    H5Aclose(note);
    H5Sclose(space);
    H5Tclose(word);
    H5Lcreate_soft("/f16", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    return H5Fclose(file) >= 0;
}
