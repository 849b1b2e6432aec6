#!/usr/bin/env python3
"""make_h5.py small|wide FOLDER - HDF5 files in every layout that the library's own reader knows, written by h5py.

small: the ten files of tests/data/h5, a few kilobytes each, which tests damage byte by byte.
wide: larger ones, one for each version of the format, with every type, layout, index, filter and way to store links.
test_h5 reads both with the library's reader and with libhdf5 and compares all that they find.
"""
import os
import sys

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

VERSIONS = ["earliest", "v108", "v110", "latest"]


def bf16(order):
    """h5py has no bf16: a float of 2 bytes whose fields say so."""
    kind = h5py.h5t.IEEE_F32LE.copy() if order == "<" else h5py.h5t.IEEE_F32BE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def low_level(group, name, shape, kind, values, memory, **how):
    """A dataset with properties that h5py's own call does not have."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if how.get("compact"):
        properties.set_layout(h5py.h5d.COMPACT)
    if "chunks" in how:
        properties.set_chunk(how["chunks"])
    if how.get("early"):
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if "fill" in how:
        properties.set_fill_value(np.array(how["fill"], dtype=np.float32))
    if how.get("gzip"):
        properties.set_deflate(6)
    space = h5py.h5s.create_simple(shape, how.get("most", shape)) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
    made = h5py.h5d.create(group.id, name.encode(), kind, space, properties)
    if values is not None:
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values, memory)


def ramp(shape, dtype="<f4"):
    return (np.arange(int(np.prod(shape))).reshape(shape) * 0.5 - 3).astype(dtype)


def add_types(group):
    for order in "<>":
        name = "little" if order == "<" else "big"
        for kind in ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]:
            values = np.array([[0, 1, 2], [100, 3, 127]]).astype(order + kind)
            if kind[0] != "u":
                values[0, 1] = -5
            group[f"{name}.{kind}"] = values
        bits = np.array([0x3F80, 0xC000, 0x7F80, 0x0001], dtype=order + "u2")
        low_level(group, f"{name}.bf16", (4,), bf16(order), bits.view("V2"), bf16(order))
    group["bool"] = np.array([True, False])
    group["text"] = "a word"
    group["texts"] = np.array([b"one", b"two"])
    group["compound"] = np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")])
    group["null"] = h5py.Empty("f4")
    group["none"] = np.zeros((3, 0, 2), "f4")
    group["odd"] = np.zeros(3, dtype=np.longdouble)
    group["named"] = np.dtype("<f8")
    low_level(group, "of named", (3,), group["named"].id, np.arange(3.0), h5py.h5t.NATIVE_DOUBLE)


def add_layouts(group):
    for rank in range(9):
        group[f"rank{rank}"] = ramp((2, 3, 1, 2, 2, 1, 3, 2)[:rank]) if rank else np.float32(7)
    group["rank9"] = ramp((1,) * 9)
    group.create_dataset("unwritten", (5, 7), "f4")
    group.create_dataset("filled", (5, 7), "f4", fillvalue=2.5)
    low_level(group, "compact", (4, 6), h5py.h5t.IEEE_F32LE, ramp((4, 6)), h5py.h5t.NATIVE_FLOAT, compact=True)
    packings = {
        "plain": {},
        "gzip": {"compression": 4},
        "shuffle": {"shuffle": True, "compression": 9},
        "fletcher": {"fletcher32": True},
        "all": {"shuffle": True, "compression": 1, "fletcher32": True},
    }
    for name, how in packings.items():
        for chunks in [(1, 1, 1), (2, 3, 4), (4, 5, 6), (7, 9, 11), (3, 9, 2), (7, 1, 11)]:
            shape, at = (7, 9, 11), "x".join(map(str, chunks))
            if np.prod(chunks) == 1 and name not in ("plain", "gzip"):
                continue
            values = ramp(shape)
            for grows, most in [("fixed", shape), ("first", (None, 9, 11)), ("last", (7, 9, None)),
                                ("two", (None, 9, None)), ("larger", (20, 30, 40))]:
                group.create_dataset(f"chunks/{name}.{at}.{grows}", data=values, chunks=chunks, maxshape=most, **how)
    low_level(group, "early", (7, 5), h5py.h5t.IEEE_F32LE, ramp((7, 5)), h5py.h5t.NATIVE_FLOAT, early=True,
              chunks=(2, 2))
    low_level(group, "early in more", (7, 5), h5py.h5t.IEEE_F32LE, ramp((7, 5)), h5py.h5t.NATIVE_FLOAT, early=True,
              chunks=(2, 2), most=(9, 12))
    for most in [(3000,), (None,), (5000,)]:
        group.create_dataset(f"many.{most[0]}", data=ramp(3000), chunks=(1,), maxshape=most)
        group.create_dataset(f"many gzip.{most[0]}", data=ramp(3000), chunks=(1,), maxshape=most, compression=1)
    for most in [(60, 70), (None, 70), (60, None), (None, None)]:
        sparse = group.create_dataset(f"sparse.{most}", (60, 70), "f4", chunks=(4, 3), maxshape=most, fillvalue=-1.5)
        sparse[5, 5], sparse[59, 69], sparse[20:30, 33] = 1, 2, 3
        shrunk = group.create_dataset(f"shrunk.{most}", data=ramp((60, 70)), chunks=(8, 9), maxshape=most)
        shrunk.resize((31, 29))
        group.create_dataset(f"integers.{most}", data=np.arange(4200).reshape(60, 70).astype(">i2"), chunks=(9, 11),
                             maxshape=most, compression=1, shuffle=True)


def add_links(group, track):
    for count in [0, 1, 8, 9, 40, 200]:
        many = group.create_group(f"links{count}", track_order=track)
        for i in range(count):
            many[f"main.{i * 7 % 200}.weight with a name"] = np.float32(i)
    group["nested/a/b/c/d"] = ramp((2, 2))
    group["tied"] = group["nested/a/b/c/d"]
    group["around"] = group
    group["soft"] = h5py.SoftLink("nested/a/b/c/d")
    group["soft from root"] = h5py.SoftLink(group.name + "/soft")
    group["soft group"] = h5py.SoftLink("nested")
    group["soft through"] = h5py.SoftLink("soft group/a/./b//c/d")
    group["nowhere"] = h5py.SoftLink("no/such")
    group["circle"] = h5py.SoftLink("circle")
    group["outside"] = h5py.ExternalLink("/etc/passwd", "/x")


def add_attributes(group, track):
    few = group.create_dataset("few", data=ramp(3))
    many = group.create_group("many", track_order=track)
    for place, count in [(few, 3), (many, 100)]:
        for i in range(count):
            place.attrs[f"number {i}"] = np.float32(i)
        place.attrs["integers"] = np.arange(5, dtype=">i2")
        place.attrs["unsigned"] = np.uint64(2**63 + 2048)
        place.attrs["half"] = np.array([1.5, -2], "f2")
        place.attrs["text"] = "of any length, \u00e4"
        place.attrs["texts"] = np.array(["one", "", "three"], dtype=h5py.string_dtype())
        place.attrs["fixed"] = np.array([b"layer_0", b"layer_10"])
        place.attrs["empty"] = h5py.Empty("f4")
        place.attrs["bool"] = True


def make_wide(folder):
    for version in VERSIONS:
        for track in (False, True):
            name = f"{version}{'.ordered' if track else ''}.h5"
            with h5py.File(os.path.join(folder, name), "w", libver=(version, "latest"), track_order=track) as file:
                add_types(file.create_group("types"))
                add_layouts(file.create_group("layouts"))
                add_links(file.create_group("links", track_order=track), track)
                add_attributes(file.create_group("attributes"), track)
                file.attrs["layer_names"] = [f"layer {i}" for i in range(30)]
    with h5py.File(os.path.join(folder, "userblock.h5"), "w", userblock_size=1024) as file:
        file["main/0/weight"] = ramp((3, 5))
        add_links(file.create_group("links"), False)
    for version in ("earliest", "latest"):  # deep trees, and pages of extensible arrays
        with h5py.File(os.path.join(folder, f"large.{version}.h5"), "w", libver=version) as file:
            for i in range(3000):
                file[f"layer.{i}.weight"] = np.float32(i)
            values = np.arange(140000, dtype="<u2")
            file.create_dataset("pages", data=values, chunks=(1,), maxshape=(None,))
            sparse = file.create_dataset("sparse pages", (200000,), "<u2", chunks=(1,), maxshape=(None,))
            sparse[150000:150010] = 5
            sparse[199000:199010] = 6


def make_small(folder):
    def start(name, **how):
        return h5py.File(os.path.join(folder, name + ".h5"), "w", **how)

    plain = {"track_times": False}
    with start("symbols", libver="earliest") as file:
        file.create_dataset("main/0/weight", data=ramp((3, 5)), **plain)
        file.create_dataset("main/1/n", data=np.int64(4), **plain)
        file["soft"] = h5py.SoftLink("/main/0/weight")
        file["outside"] = h5py.ExternalLink("other.h5", "/x")
        file.attrs["layer_names"] = np.array([b"one", b"two"])
    with start("chunked", libver="earliest") as file:
        file.create_dataset("a", data=ramp((6, 5), ">f8"), chunks=(2, 3), compression=5, shuffle=True, fletcher32=True,
                            **plain)
        file.create_dataset("b", data=ramp((6, 5), "<f2"), chunks=(4, 4), **plain)
    with start("compact_links", libver="v108") as file:
        for i in range(4):
            file.create_dataset(f"main.{i}.weight", data=ramp((2, 3)), **plain)
        low_level(file, "compact", (3,), h5py.h5t.IEEE_F32LE, ramp(3), h5py.h5t.NATIVE_FLOAT, compact=True)
        file.attrs["text"] = "varying"
    with start("dense_links", libver="latest") as file:
        for i in range(24):
            file.create_dataset(f"layer.{i}.weight", data=np.float32(i), **plain)
    with start("dense_attributes", libver="latest") as file:
        for i in range(12):
            file.attrs[f"number {i}"] = i
        file.attrs["texts"] = np.array(["one", "three"], dtype=h5py.string_dtype())
        file.create_dataset("x", data=ramp(2), **plain)
    with start("fixed_array", libver="latest") as file:
        file.create_dataset("plain", data=ramp((6, 5)), chunks=(2, 3), **plain)
        file.create_dataset("gzip", data=ramp((6, 5)), chunks=(3, 3), compression=5, **plain)
    with start("extensible_array", libver="latest") as file:
        file.create_dataset("plain", data=ramp((30, 2)), chunks=(1, 2), maxshape=(None, 2), **plain)
        file.create_dataset("gzip", data=ramp((6, 5)), chunks=(3, 3), maxshape=(6, None), compression=5, **plain)
    with start("tree", libver="latest") as file:
        file.create_dataset("plain", data=ramp((6, 5)), chunks=(2, 3), maxshape=(None, None), **plain)
        file.create_dataset("gzip", data=ramp((6, 5)), chunks=(3, 3), maxshape=(None, None), compression=5, **plain)
    with start("single", libver="latest") as file:
        file.create_dataset("plain", data=ramp((6, 5)), chunks=(6, 5), **plain)
        file.create_dataset("gzip", data=ramp((6, 5)), chunks=(6, 5), compression=5, **plain)
        low_level(file, "implicit", (6, 5), h5py.h5t.IEEE_F32LE, ramp((6, 5)), h5py.h5t.NATIVE_FLOAT, early=True,
                  chunks=(2, 3))
        file.create_dataset("filled", (3, 4), "f4", fillvalue=2.5, **plain)
    with start("types", libver="v108") as file:
        for kind in ["<i1", ">u2", "<i8", ">f2", "<f4", ">f8"]:
            file.create_dataset(kind[1:], data=np.arange(3).astype(kind), **plain)
        low_level(file, "bf16", (2,), bf16("<"), np.array([0x3F80, 0xC000], "<u2").view("V2"), bf16("<"))
        file["named"] = np.dtype("<f8")
        low_level(file, "of named", (3,), file["named"].id, np.arange(3.0), h5py.h5t.NATIVE_DOUBLE)


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    {"small": make_small, "wide": make_wide}[sys.argv[1]](sys.argv[2])
