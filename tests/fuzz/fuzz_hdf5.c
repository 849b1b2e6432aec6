/* fuzz_hdf5.c - any bytes, without libhdf5: tensors, or a sentence and a store that is as it was.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

static void demand_refusal(uf_status status) {
    FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_SHAPE ||
                status == UF_ERROR_OUT_OF_MEMORY || status == UF_ERROR_NOT_FOUND);
    FUZZ_DEMAND(uf_last_error()[0] != '\0');
}

static void load_into_empty(uf_context *context, const char *path) {
    uf_store *store;
    FUZZ_DEMAND(uf_store_create(context, "empty", &store) == UF_OK);
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.untrusted = true;
    const uf_status status = uf_store_load_hdf5(store, path, &options);
    if (status != UF_OK) {
        demand_refusal(status);
        FUZZ_DEMAND(uf_store_size(store) == 0);
        FUZZ_DEMAND(uf_store_declare(store, "still open", UF_SCALAR, UF_ROLE_PARAMETER) == UF_OK);
    } else {
        FUZZ_DEMAND(uf_store_size(store) > 0);
    }
    uf_store_destroy(store);
}

static void load_into_declared(uf_context *context, const char *path) {
    uf_store *store;
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.strict = false;
    options.untrusted = true;
    FUZZ_DEMAND(uf_store_create(context, "declared", &store) == UF_OK);
    FUZZ_DEMAND(uf_store_declare(store, "main.0.weight", UF_SHAPE(3, 5), UF_ROLE_PARAMETER) ==
                UF_OK);
    FUZZ_DEMAND(uf_store_declare(store, "main.1.n", UF_SCALAR, UF_ROLE_COUNTER) == UF_OK);
    const uf_status status = uf_store_load_hdf5(store, path, &options);
    if (status != UF_OK) {
        demand_refusal(status);
    }
    FUZZ_DEMAND(uf_store_size(store) == 2);
    uf_store_destroy(store);
}

static void read_attribute(const char *path) {
    double values[4];
    int32_t count;
    const uf_status status = uf_hdf5_read_attribute(path, "/", "number 1", values, 4, &count);
    if (status != UF_OK) {
        demand_refusal(status);
        FUZZ_DEMAND(count == 0);
    }
}

static void list_and_read(const char *path) {
    uf_hdf5_entry *entries;
    int64_t count;
    const uf_status status = uf_hdf5_list(path, NULL, &entries, &count);
    if (status != UF_OK) {
        demand_refusal(status);
        return;
    }
    /* A few of them: each reading opens the file anew. */
    for (int64_t i = 0; i < count; i += 1 + count / 8) {
        uf_shape shape;
        double values[256];
        const uf_status read = uf_hdf5_read(path, entries[i].name, UF_F64, &shape, values, 256);
        if (read != UF_OK) {
            demand_refusal(read);
        } else {
            FUZZ_DEMAND(entries[i].is_tensor && uf_shape_equal(&shape, &entries[i].shape));
            FUZZ_DEMAND(uf_shape_count(&shape) >= 1 && uf_shape_count(&shape) <= 256);
        }
    }
    uf_hdf5_list_free(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_context *context;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    FUZZ_DEMAND(uf_context_create(&options, &context) == UF_OK);
    const char *path = fuzz_file(data, size);
    load_into_empty(context, path);
    load_into_declared(context, path);
    list_and_read(path);
    read_attribute(path);
    uf_context_destroy(context);
    return 0;
}

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
static int copy_small(const char *path, int index) {
    static const char *const names[] = {"symbols",     "chunked",          "compact_links", "types",
                                        "dense_links", "dense_attributes", "fixed_array",   "tree",
                                        "single",      "extensible_array"};
    char source[512], bytes[16384];
    if (index >= (int)(sizeof names / sizeof names[0])) {
        return 0;
    }
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

/* 0: as h5py writes by default; 1: nested and compressed; 2 and 3: the same in the checksummed
 * format; 4 to 7: the like of them with 40 names; 8 to 10: the library's own, of 40, 100
 * and 12; from 11 on: tests/data/h5. */
int fuzz_seed(int index, const char *path) {
    const hsize_t dims[] = {3, 5}, one = 1;
    static const int own[] = {40, 100, 12};
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
