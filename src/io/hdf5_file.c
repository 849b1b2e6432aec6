/* hdf5_file.c - opening HDF5 files, and saying what is in them.
 *
 * Nothing here trusts the file: links lead nowhere outside it, names and ranks have limits, and
 * types that hold no numbers are told apart before anything is read. */
#include "io/hdf5_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tensor.h"
#include "io/foreign.h"

/* By how much a file that is being made grows at a time. */
#define GROWTH_BYTES ((size_t)1 << 20)

/* libhdf5 may be built without thread safety and has one set of tables per process, so this lock is
 * per process too: two contexts in two threads may both load files. One thread may have two files
 * open, one read while the other is written: the one that was opened last is closed first. */
static pthread_mutex_t hdf5_lock;
static pthread_once_t hdf5_lock_once = PTHREAD_ONCE_INIT;

static void make_lock(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&hdf5_lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static uf_status refuse_other_file(uf_hdf5_file *file) {
    UF_FAIL(UF_ERROR_FORMAT,
            "%s needs another file through an external link, which is not followed", file->path);
}

/* Called by HDF5 before it follows a link to another file. */
static herr_t on_external_link(const char *parent_file, const char *parent_group,
                               const char *child_file, const char *child_object, unsigned *flags,
                               hid_t access, void *data) {
    (void)parent_file, (void)parent_group, (void)child_file, (void)child_object, (void)flags,
        (void)access;
    uf_hdf5_file *file = data;
    file->met_other_file = true;
    return -1;
}

typedef struct innermost {
    char text[UF_HDF5_REASON_SIZE];
    bool truncated, out_of_memory, locked;
} innermost;

static herr_t on_error(unsigned n, const H5E_error2_t *error, void *data) {
    innermost *found = data;
    if (n == 0) {
        snprintf(found->text, sizeof found->text, "%s", error->desc != NULL ? error->desc : "");
    }
    found->truncated = found->truncated || error->min_num == H5E_TRUNCATED;
    found->locked = found->locked || error->min_num == H5E_CANTLOCKFILE;
    found->out_of_memory =
        found->out_of_memory || error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC;
    return 0;
}

static innermost newest_error(void) {
    innermost found = {.text = "no reason given"};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, on_error, &found);
    return found;
}

const char *uf_hdf5_reason(char *text, size_t size) {
    snprintf(text, size, "%s", newest_error().text);
    return text;
}

/* Called by HDF5 at the end of each of its functions that failed, in place of its printing. A
 * caller cannot tell "there is no such name" from "there was no memory to look", so the second is
 * remembered here. errno tells it, which every malloc sets; HDF5's own records have more numbers
 * for it than these, and are empty when there is no memory for them, but stay when another call has
 * changed errno. */
static herr_t on_failure(hid_t stack, void *data) {
    uf_hdf5_file *file = data;
    (void)stack;
    if (!file->out_of_memory) {
        const bool no_memory = errno == ENOMEM;
        const innermost found = newest_error();
        file->out_of_memory = no_memory || found.out_of_memory;
        memcpy(file->reason, found.text, sizeof file->reason);
    }
    return 0;
}

/* Take the lock, and HDF5's errors. On a failure nothing is held. */
static uf_status enter(uf_hdf5_file *file, const char *path) {
    memset(file, 0, sizeof *file);
    file->path = path;
    file->id = file->access = H5I_INVALID_HID;
    file->atomic.descriptor = -1;
    pthread_once(&hdf5_lock_once, make_lock);
    pthread_mutex_lock(&hdf5_lock);
    errno = 0; /* see on_failure */
    /* libhdf5 would clean up when the process ends, and crashes there if it ever ran out of memory.
     * Ours are closed by then. Without effect once libhdf5 is in use, and safe to repeat. */
    (void)H5dont_atexit();
    if (H5open() < 0) {
        pthread_mutex_unlock(&hdf5_lock);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory starting libhdf5 for %s", path);
    }
    H5Eget_auto2(H5E_DEFAULT, &file->printer, &file->printer_data);
    H5Eset_auto2(H5E_DEFAULT, on_failure, file);
    /* A file names the filters it wants, and libhdf5 would look for them among the plugins on the
     * disk. */
    H5PLget_loading_state(&file->plugins);
    H5PLset_loading_state(0);
    file->access = H5Pcreate(H5P_LINK_ACCESS);
    if (file->access < 0 || H5Pset_elink_cb(file->access, on_external_link, file) < 0) {
        /* Nothing else is asked of HDF5 here, so memory is short, or was when libhdf5 started. */
        return uf_hdf5_close(file, uf_fail(UF_ERROR_OUT_OF_MEMORY,
                                           "out of host memory in libhdf5, opening %s", path));
    }
    return UF_OK;
}

uf_status uf_hdf5_close(uf_hdf5_file *file, uf_status status) {
    if (file->id >= 0) {
        H5Fclose(file->id);
    }
    if (file->access >= 0) {
        H5Pclose(file->access);
    }
    H5PLset_loading_state(file->plugins);
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, file->printer, file->printer_data);
    pthread_mutex_unlock(&hdf5_lock);
    if (file->out_of_memory && status != UF_ERROR_OUT_OF_MEMORY) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory in libhdf5, at work on %s (HDF5: %s)",
                file->path, file->reason);
    }
    return status;
}

#define EXPECTED "an HDF5 file"

static uf_status open_locked(uf_hdf5_file *file) {
    const htri_t is_hdf5 = H5Fis_hdf5(file->path);
    if (is_hdf5 == 0) {
        return uf_file_refuse_format(file->path, EXPECTED);
    }
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
    /* File systems that cannot lock are no reason to fail. */
    if (how >= 0 && H5Pset_fclose_degree(how, H5F_CLOSE_STRONG) >= 0 &&
        H5Pset_file_locking(how, true, true) >= 0) {
        file->id = H5Fopen(file->path, H5F_ACC_RDONLY, how);
    }
    const innermost found = newest_error(); /* before the next call of HDF5 clears it */
    H5Pclose(how);
    if (file->id < 0) {
        if (found.truncated) {
            UF_FAIL(UF_ERROR_FORMAT, "%s is truncated: its %" PRId64 " bytes are not all of it",
                    file->path, file->size);
        }
        if (found.locked) {
            UF_FAIL(UF_ERROR_IO, "%s is locked: another program has it open to write (HDF5: %s)",
                    file->path, found.text);
        }
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged and cannot be opened (HDF5: %s)", file->path,
                found.text);
    }
    return UF_OK;
}

uf_status uf_hdf5_open(const char *path, uf_hdf5_file *file) {
    int64_t size = 0;
    UF_TRY(uf_file_check_readable(path, EXPECTED, &size));
    UF_TRY(enter(file, path));
    file->size = size;
    const uf_status status = open_locked(file);
    return status == UF_OK ? UF_OK : uf_hdf5_close(file, status);
}

static uf_status create_locked(uf_hdf5_file *file) {
    char reason[UF_HDF5_REASON_SIZE];
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS), root = H5Pcreate(H5P_FILE_CREATE);
    if (how >= 0 && root >= 0 && H5Pset_fclose_degree(how, H5F_CLOSE_STRONG) >= 0 &&
        /* The file grows in memory and reaches the disk as one block, by our own write:
         * libhdf5 1.10 keeps files whose writes failed (a full disk) half open and crashes on them
         * when the process ends. */
        H5Pset_fapl_core(how, GROWTH_BYTES, false) >= 0 &&
        /* The 1.8 format has checksums on its metadata, and every HDF5 since 2008 reads it. */
        H5Pset_libver_bounds(how, H5F_LIBVER_V18, H5F_LIBVER_V18) >= 0 &&
        /* The root group would carry the time of its making: the same tensors are to give the same
           bytes. */
        H5Pset_obj_track_times(root, false) >= 0) {
        file->id = H5Fcreate(file->atomic.temporary, H5F_ACC_TRUNC, root, how);
    }
    uf_hdf5_reason(reason, sizeof reason);
    H5Pclose(root);
    H5Pclose(how);
    if (file->id < 0) {
        /* Nothing is asked of the disk yet. Not each of libhdf5's records says that memory was
         * short. */
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory in libhdf5, beginning %s (HDF5: %s)",
                file->path, reason);
    }
    return UF_OK;
}

uf_status uf_hdf5_create(const char *path, uf_hdf5_file *file) {
    uf_atomic_file atomic;
    UF_TRY(uf_atomic_begin(path, &atomic));
    uf_status status = enter(file, path);
    if (status == UF_OK) {
        file->atomic = atomic;
        status = create_locked(file);
        status = status == UF_OK ? UF_OK : uf_hdf5_close(file, status);
    }
    if (status != UF_OK) {
        uf_atomic_abort(&atomic);
    }
    return status;
}

/* The finished file, from HDF5's memory to the disk. */
static uf_status write_image(uf_hdf5_file *file) {
    char reason[UF_HDF5_REASON_SIZE];
    void *handle =
        NULL; /* of the in-memory driver: the address of its pointer to the file's bytes */
    /* This size is that of the contents; the driver's own is rounded up to its growth. */
    const ssize_t size =
        H5Fflush(file->id, H5F_SCOPE_LOCAL) < 0 ? -1 : H5Fget_file_image(file->id, NULL, 0);
    if (size <= 0 || H5Fget_vfd_handle(file->id, H5P_DEFAULT, &handle) < 0) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s (HDF5: %s)", file->path,
                uf_hdf5_reason(reason, sizeof reason));
    }
    return uf_atomic_write(&file->atomic, *(void **)handle, (size_t)size);
}

uf_status uf_hdf5_finish(uf_hdf5_file *file, uf_status status) {
    if (status == UF_OK) {
        status = write_image(file);
    }
    uf_atomic_file atomic = file->atomic;
    status = uf_hdf5_close(file, status);
    if (status != UF_OK) {
        uf_atomic_abort(&atomic);
        return status;
    }
    return uf_atomic_commit(&atomic);
}

/* ---- what a dataset holds ---- */

/* The IEEE-like formats, by their fields. h5py has no bf16 of its own, so files carry it as a
 * user-defined float with exactly these fields. */
static const struct float_format {
    uf_dtype dtype;
    size_t size, exponent_at, exponent_bits, mantissa_bits, bias;
} float_formats[] = {
    {UF_F16, 2, 10, 5, 10, 15},
    {UF_BF16, 2, 7, 8, 7, 127},
    {UF_F32, 4, 23, 8, 23, 127},
    {UF_F64, 8, 52, 11, 52, 1023},
};

static const char *const class_names[][2] = {
    /* entry.type, and how a sentence calls it */
    [H5T_INTEGER] = {"integer", "integers"},
    [H5T_FLOAT] = {"float", "floats"},
    [H5T_TIME] = {"time", "times"},
    [H5T_STRING] = {"string", "strings"},
    [H5T_BITFIELD] = {"bitfield", "bit fields"},
    [H5T_OPAQUE] = {"opaque", "opaque bytes"},
    [H5T_COMPOUND] = {"compound", "compound values"},
    [H5T_REFERENCE] = {"reference", "references"},
    [H5T_ENUM] = {"enum", "enumerated values"},
    [H5T_VLEN] = {"vlen", "lists of varying length"},
    [H5T_ARRAY] = {"array", "arrays"},
};

static bool is_plain_order(hid_t type) {
    const H5T_order_t order = H5Tget_order(type);
    return (order == H5T_ORDER_LE || order == H5T_ORDER_BE) && H5Tget_offset(type) == 0 &&
           H5Tget_precision(type) == 8 * H5Tget_size(type);
}

static bool classify_float(hid_t type, uf_hdf5_dataset *dataset) {
    size_t sign, exponent_at, exponent_bits, mantissa_at, mantissa_bits;
    const size_t size = H5Tget_size(type);
    if (H5Tget_fields(type, &sign, &exponent_at, &exponent_bits, &mantissa_at, &mantissa_bits) <
            0 ||
        !is_plain_order(type) || H5Tget_norm(type) != H5T_NORM_IMPLIED) {
        return false;
    }
    for (size_t i = 0; i < sizeof float_formats / sizeof float_formats[0]; ++i) {
        const struct float_format *format = &float_formats[i];
        if (size == format->size && sign == 8 * size - 1 && exponent_at == format->exponent_at &&
            exponent_bits == format->exponent_bits && mantissa_at == 0 &&
            mantissa_bits == format->mantissa_bits && H5Tget_ebias(type) == format->bias) {
            dataset->dtype = format->dtype;
            snprintf(dataset->entry.type, sizeof dataset->entry.type, "%s",
                     uf_dtype_name(format->dtype));
            return true;
        }
    }
    return false;
}

static bool classify_integer(hid_t type, uf_hdf5_dataset *dataset) {
    const size_t size = H5Tget_size(type);
    if (!is_plain_order(type) || (size != 1 && size != 2 && size != 4 && size != 8)) {
        return false;
    }
    dataset->dtype = UF_I64;
    snprintf(dataset->entry.type, sizeof dataset->entry.type, "%c%zu",
             H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i', 8 * size);
    return true;
}

/* Fill entry.type, dtype and is_numeric; a problem when the values are no numbers. */
static void classify(hid_t type, uf_hdf5_dataset *dataset) {
    const H5T_class_t class = H5Tget_class(type);
    if ((class == H5T_FLOAT && classify_float(type, dataset)) ||
        (class == H5T_INTEGER && classify_integer(type, dataset))) {
        dataset->is_numeric = true;
        return;
    }
    const bool known = class >= 0 && (size_t) class < sizeof class_names / sizeof class_names[0];
    snprintf(dataset->entry.type, sizeof dataset->entry.type, "%s",
             known ? class_names[class][0] : "unknown");
    if (class == H5T_FLOAT || class == H5T_INTEGER) {
        snprintf(dataset->problem, sizeof dataset->problem,
                 "holds %s of an unusual format, %zu bytes each", class_names[class][1],
                 H5Tget_size(type));
    } else {
        snprintf(dataset->problem, sizeof dataset->problem, "holds %s, not numbers",
                 known ? class_names[class][1] : "values of an unknown type");
    }
}

/* The extents. Null, empty and overlong dataspaces are problems; entry.shape.rank is then -1,
 * except that an empty dataspace keeps its extents for the message. */
static uf_status measure(const uf_hdf5_file *file, hid_t space, size_t element,
                         uf_hdf5_dataset *dataset) {
    uf_weights_entry *entry = &dataset->entry;
    hsize_t extent[H5S_MAX_RANK];
    char text[128];
    entry->shape.rank = -1;
    const H5S_class_t class = H5Sget_simple_extent_type(space);
    const int rank = H5Sget_simple_extent_ndims(space);
    if (class == H5S_NULL) {
        snprintf(dataset->problem, sizeof dataset->problem, "has no data (a null dataspace)");
        return UF_OK;
    }
    if (class == H5S_NO_CLASS || rank < 0 || H5Sget_simple_extent_dims(space, extent, NULL) < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its extents cannot be read", entry->name,
                file->path);
    }
    if (rank > UF_MAX_RANK) {
        snprintf(dataset->problem, sizeof dataset->problem, "has %d axes, more than %d", rank,
                 UF_MAX_RANK);
        return UF_OK;
    }
    entry->shape.rank = rank;
    for (int i = 0; i < rank; ++i) {
        entry->shape.extent[i] = extent[i] <= (hsize_t)INT64_MAX ? (int64_t)extent[i] : INT64_MAX;
    }
    const int64_t count = uf_shape_count(&entry->shape);
    if (count < 0 || uf_mul_overflows(count, (int64_t)element, &entry->bytes)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is %s, more elements than memory can address",
                entry->name, file->path, uf_shape_format(&entry->shape, text, sizeof text));
    }
    if (count == 0) {
        snprintf(dataset->problem, sizeof dataset->problem, "is empty, %s",
                 uf_shape_format(&entry->shape, text, sizeof text));
    }
    return UF_OK;
}

/* Does the dataset keep its data in other files? Such files are not followed: a file of weights
 * should not be able to read the rest of the disk. */
static bool data_lie_elsewhere(hid_t id) {
    const hid_t properties = H5Dget_create_plist(id);
    const bool elsewhere = properties < 0 || H5Pget_layout(properties) == H5D_VIRTUAL ||
                           H5Pget_external_count(properties) > 0;
    if (properties >= 0) {
        H5Pclose(properties);
    }
    return elsewhere;
}

uf_status uf_hdf5_describe(const uf_hdf5_file *file, hid_t id, uf_hdf5_dataset *dataset) {
    const hid_t type = H5Dget_type(id);
    const hid_t space = data_lie_elsewhere(id) ? H5I_INVALID_HID : H5Dget_space(id);
    uf_status status = UF_OK;
    dataset->entry.shape.rank = -1;
    if (type < 0) {
        status = uf_fail(UF_ERROR_FORMAT, "%s in %s is damaged: its type cannot be read",
                         dataset->entry.name, file->path);
    } else if (space < 0) {
        classify(type, dataset);
        dataset->is_numeric = false;
        snprintf(dataset->problem, sizeof dataset->problem,
                 "keeps its data in other files, which are not read");
    } else {
        classify(type, dataset);
        if (dataset->problem[0] == '\0') {
            status = measure(file, space, H5Tget_size(type), dataset);
        }
    }
    dataset->entry.is_tensor = status == UF_OK && dataset->problem[0] == '\0';
    if (space >= 0) {
        H5Sclose(space);
    }
    if (type >= 0) {
        H5Tclose(type);
    }
    return status;
}

uf_status uf_hdf5_open_object(uf_hdf5_file *file, const char *name, hid_t *id) {
    file->met_other_file = false;
    *id = H5Oopen(file->id, name, file->access);
    if (*id < 0 && file->met_other_file) {
        return refuse_other_file(file);
    }
    return UF_OK;
}

uf_status uf_hdf5_find(uf_hdf5_file *file, const char *name, uf_hdf5_dataset *dataset, hid_t *id) {
    memset(dataset, 0, sizeof *dataset);
    *id = H5I_INVALID_HID;
    name += strspn(name, "/");
    UF_TRY(uf_file_check_name(file->path, name));
    snprintf(dataset->entry.name, sizeof dataset->entry.name, "%s", name);
    hid_t object;
    UF_TRY(uf_hdf5_open_object(file, name, &object));
    if (object < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no dataset %s", file->path, name);
    }
    uf_status status;
    const H5I_type_t kind = H5Iget_type(object);
    if (kind != H5I_DATASET) {
        status = uf_fail(UF_ERROR_FORMAT, "%s in %s is a %s, not a dataset", name, file->path,
                         kind == H5I_GROUP ? "group" : "named type");
    } else {
        status = uf_hdf5_describe(file, object, dataset);
        dataset->has_checksum = status == UF_OK && uf_hdf5_has_checksum(object);
    }
    if (status != UF_OK) {
        H5Oclose(object);
        return status;
    }
    *id = object;
    return UF_OK;
}
