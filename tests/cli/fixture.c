/* fixture.c - makes the files that the tests of the command feed it.
 *
 *   cli_fixture latents OUT.h5 KIND         nan, inf, narrow (4, 32, 1, 1), rank1, empty (0, 64),
 * double cli_fixture flatten IN.h5:/z OUT.h5     (N, nz, 1, 1) as /z of shape (N, nz) cli_fixture
 * strings OUT.h5              a dataset of strings, main.0.weight cli_fixture rename IN.h5 OUT.h5
 * FROM TO     every dataset whose name begins with FROM, beginning with TO cli_fixture graft
 * MODEL.h5 WEIGHTS.h5 OUT.h5  a model file of both cli_fixture drop IN.h5 OUT.h5 NAME      without
 * this dataset cli_fixture share IN.h5 OUT.h5  with messages that datasets share, cli_fixture
 * poison IN.h5 OUT.h5 NAME    with the first value of this f32 dataset a NaN cli_fixture layer W.h5
 * Z.h5 Y.h5        a generator of one layer with a bias: weights, latents /z and what must come
 * out, /images cli_fixture picture IN.png OUT.png KIND grey (the green channel), grey3 (the same as
 * RGB), grey-alpha, rgba (alpha is green), opaque, rgb16, grey16, colour (with gamma and
 * chromaticities), profile (with an ICC profile) cli_fixture noise OUT.png WIDTH HEIGHT cli_fixture
 * disc OUT.png KIND cli_fixture checkpoint OUT.h5 a store of one tensor cli_fixture damage FILE
 * another byte in its middle */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#include <unfurl/unfurl.h>

static _Noreturn void stop(const char *message) {
    fprintf(stderr, "cli_fixture: %s\n", message);
    exit(1);
}

static void check(uf_status status) {
    if (status != UF_OK) {
        stop(uf_last_error());
    }
}

static void latents(char **words) {
    const char *kind = words[1];
    double z[4 * 64];
    for (int i = 0; i < 4 * 64; i++) {
        z[i] = sin(i);
    }
    z[2 * 64 + 5] = strcmp(kind, "nan") == 0   ? (double)NAN
                    : strcmp(kind, "inf") == 0 ? (double)INFINITY
                                               : z[2 * 64 + 5];
    uf_shape shape = strcmp(kind, "narrow") == 0  ? UF_SHAPE(8, 32, 1, 1)
                     : strcmp(kind, "rank1") == 0 ? UF_SHAPE(256)
                     : strcmp(kind, "empty") == 0 ? UF_SHAPE(0, 64)
                                                  : UF_SHAPE(4, 64, 1, 1);
    check(uf_hdf5_write(words[0], "z", UF_F64, shape, z));
}

static void flatten(char **words) {
    char *colon = strrchr(words[0], ':');
    if (colon == NULL) {
        stop("FILE.h5:/dataset expected");
    }
    *colon = '\0';
    static double z[4096];
    uf_shape shape;
    check(uf_hdf5_read(words[0], colon + 1, UF_F64, &shape, z, 4096));
    check(uf_hdf5_write(words[1], "z", UF_F64, UF_SHAPE(shape.extent[0], shape.extent[1]), z));
}

static void strings(char **words) {
    hid_t file = H5Fcreate(words[0], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 8);
    const hsize_t extent[4] = {2, 1, 1, 1};
    hid_t space = H5Screate_simple(4, extent, NULL);
    hid_t set =
        H5Dcreate2(file, "main.0.weight", text, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(set, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, "one\0    two\0    ") < 0) {
        stop("cannot write the strings");
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Tclose(text);
    H5Fclose(file);
}

/* Copy every dataset of the root whose name is not `without`; `from` at a name's start becomes
 * `to`. */
static void copy_datasets(const char *in, const char *out, const char *without, const char *from,
                          const char *to) {
    hid_t source = H5Fopen(in, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t target = H5Fcreate(out, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5G_info_t info;
    if (source < 0 || target < 0 || H5Gget_info(source, &info) < 0) {
        stop("cannot copy the file");
    }
    for (hsize_t i = 0; i < info.nlinks; i++) {
        char name[256];
        char renamed[600];
        H5Lget_name_by_idx(source, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name,
                           H5P_DEFAULT);
        bool matches = strncmp(name, from, strlen(from)) == 0;
        snprintf(renamed, sizeof renamed, "%s%s", matches ? to : "",
                 matches ? name + strlen(from) : name);
        if (strcmp(name, without) != 0 &&
            H5Ocopy(source, name, target, renamed, H5P_DEFAULT, H5P_DEFAULT) < 0) {
            stop("cannot copy a dataset");
        }
    }
    H5Fclose(source);
    H5Fclose(target);
}

/* Messages shared in a heap of the file's own, which libhdf5 alone reads. */
static void share(char **words) {
    const hid_t how = H5Pcreate(H5P_FILE_CREATE), source = H5Fopen(words[0], H5F_ACC_RDONLY, 0);
    H5Pset_shared_mesg_nindexes(how, 1);
    H5Pset_shared_mesg_index(how, 0, H5O_SHMESG_ALL_FLAG, 8);
    const hid_t target = H5Fcreate(words[1], H5F_ACC_TRUNC, how, H5P_DEFAULT);
    H5G_info_t info;
    if (source < 0 || target < 0 || H5Gget_info(source, &info) < 0) {
        stop("cannot share messages");
    }
    for (hsize_t i = 0; i < info.nlinks; i++) {
        char name[256];
        H5Lget_name_by_idx(source, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name,
                           H5P_DEFAULT);
        if (H5Ocopy(source, name, target, name, H5P_DEFAULT, H5P_DEFAULT) < 0) {
            stop("cannot copy a dataset");
        }
    }
    H5Fclose(source);
    H5Fclose(target);
    H5Pclose(how);
}

/* The model file OUT: the text of MODEL with the datasets of WEIGHTS. */
static void graft(char **words) {
    const hid_t model = H5Fopen(words[0], H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t weights = H5Fopen(words[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t target = H5Fcreate(words[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (model < 0 || weights < 0 || target < 0 ||
        H5Ocopy(model, "model", target, "model", H5P_DEFAULT, H5P_DEFAULT) < 0 ||
        H5Ocopy(weights, "/", target, "weights", H5P_DEFAULT, H5P_DEFAULT) < 0) {
        stop("cannot graft weights");
    }
    H5Fclose(model);
    H5Fclose(weights);
    H5Fclose(target);
}

static void rename_datasets(char **words) {
    copy_datasets(words[0], words[1], "", words[2], words[3]);
}

static void drop(char **words) {
    copy_datasets(words[0], words[1], words[2], "", "");
}

static void poison(char **words) {
    copy_datasets(words[0], words[1], "", "", "");
    hid_t file = H5Fopen(words[1], H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t set = H5Dopen2(file, words[2], H5P_DEFAULT);
    static float data[1 << 20];
    if (H5Dget_storage_size(set) > sizeof data ||
        H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        stop("cannot read the dataset");
    }
    data[0] = NAN;
    if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        stop("cannot write the dataset");
    }
    H5Dclose(set);
    H5Fclose(file);
}

static void write_dataset(hid_t file, const char *name, int rank, const hsize_t *extent,
                          const double *data) {
    hid_t space = H5Screate_simple(rank, extent, NULL);
    hid_t set =
        H5Dcreate2(file, name, H5T_IEEE_F64BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        stop("cannot write a dataset");
    }
    H5Dclose(set);
    H5Sclose(space);
}

/* On a 1x1 input with stride 1 and padding 0 a transposed convolution is a matrix product:
 * images[n, c, y, x] = tanh(bias[c] + sum over i of z[n, i] * weight[i, c, y, x]). */
static void layer(char **words) {
    enum { N = 70, IN = 2, OUT = 3, H = 3, W = 5, PIXELS = H * W };
    double weight[IN * OUT * PIXELS], z[N * IN], images[N * OUT * PIXELS];
    const double bias[OUT] = {0.25, -0.5, 1.0};
    for (int i = 0; i < IN * OUT * PIXELS; i++) {
        weight[i] = sin(1.7 * i);
    }
    for (int i = 0; i < N * IN; i++) {
        z[i] = cos(0.9 * i);
    }
    for (int i = 0; i < N * OUT * PIXELS; i++) {
        int n = i / (OUT * PIXELS), at = i % (OUT * PIXELS);
        images[i] = tanh(bias[at / PIXELS] + z[n * IN] * weight[at] +
                         z[n * IN + 1] * weight[OUT * PIXELS + at]);
    }
    hid_t file = H5Fcreate(words[0], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    write_dataset(file, "0.weight", 4, (const hsize_t[]){IN, OUT, H, W}, weight);
    write_dataset(file, "0.bias", 1, (const hsize_t[]){OUT}, bias);
    H5Fclose(file);
    check(uf_hdf5_write(words[1], "z", UF_F64, UF_SHAPE(N, IN), z));
    check(uf_hdf5_write(words[2], "images", UF_F64, UF_SHAPE(N, OUT, H, W), images));
}

/* The smallest profile that readers accept: a header that says how long it is and no tags. */
static void add_profile(uf_picture *picture) {
    enum { SIZE = 132 };
    uint8_t *profile = calloc(1, SIZE);
    if (profile == NULL) {
        stop("no memory");
    }
    profile[3] = SIZE;
    profile[8] = 2;                           /* version */
    memcpy(profile + 12, "mntrRGB XYZ ", 12); /* a display's, of RGB, connected through XYZ */
    memcpy(profile + 36, "acsp", 4);
    const uint8_t d50[12] = {0, 0, 0xF6, 0xD6, 0, 1, 0, 0, 0, 0, 0xD3, 0x2D};
    memcpy(profile + 68, d50, sizeof d50);
    picture->icc_profile = profile;
    picture->icc_size = SIZE;
    snprintf(picture->icc_name, sizeof picture->icc_name, "a test's profile");
}

static void add_colour(uf_picture *picture) {
    static const double primaries[8] = {0.3127, 0.329, 0.64, 0.33, 0.21, 0.71, 0.15, 0.06};
    picture->gamma = 0.5;
    picture->has_chromaticities = true;
    memcpy(picture->chromaticities, primaries, sizeof primaries);
}

static void picture(char **words) {
    static const struct {
        const char *kind;
        int32_t channels, depth;
        int from[4]; /* channel of the RGB input; 3: green, 1 at least; -1: the largest value */
    } kinds[] = {
        {"grey", 1, 8, {3, 0, 0, 0}},       {"grey3", 3, 8, {3, 3, 3, 0}},
        {"grey-alpha", 2, 8, {3, 3, 0, 0}}, {"rgba", 4, 8, {0, 1, 2, 3}},
        {"opaque", 4, 8, {0, 1, 2, -1}},    {"rgb16", 3, 16, {0, 1, 2, 0}},
        {"grey16", 1, 16, {3, 0, 0, 0}},    {"colour", 3, 8, {0, 1, 2, 0}},
        {"profile", 3, 8, {0, 1, 2, 0}},
    };
    uf_picture in, out;
    check(uf_png_read(words[0], &in));
    size_t k = 0;
    while (k < sizeof kinds / sizeof kinds[0] && strcmp(words[2], kinds[k].kind) != 0) {
        k++;
    }
    if (k == sizeof kinds / sizeof kinds[0] || in.channels != 3 || in.depth != 8) {
        stop("no such kind, or the input is not 8-bit RGB");
    }
    check(uf_picture_create(in.width, in.height, kinds[k].channels, kinds[k].depth, &out));
    const uint8_t *from = in.samples;
    for (int64_t i = 0; i < in.width * in.height * kinds[k].channels; i++) {
        int source = kinds[k].from[i % kinds[k].channels];
        const uint8_t *pixel = from + i / kinds[k].channels * 3;
        uint8_t value = source < 0                     ? 255
                        : source == 3 && pixel[1] == 0 ? 1
                                                       : pixel[source % 3 + (source == 3)];
        if (kinds[k].depth == 16) {
            ((uint16_t *)out.samples)[i] = (uint16_t)(value * 257);
        } else {
            ((uint8_t *)out.samples)[i] = value;
        }
    }
    if (strcmp(kinds[k].kind, "colour") == 0) {
        add_colour(&out);
    } else if (strcmp(kinds[k].kind, "profile") == 0) {
        add_profile(&out);
    }
    check(uf_png_write(words[1], &out));
    uf_picture_free(&in);
    uf_picture_free(&out);
}

static void noise(char **words) {
    uf_picture out;
    check(uf_picture_create(atoi(words[1]), atoi(words[2]), 3, 8, &out));
    uint32_t state = 1;
    for (int64_t i = 0; i < out.width * out.height * 3; i++) {
        state = state * 1664525u + 1013904223u;
        double smooth = 100 + 60 * sin(1e-3 * (double)(i % (out.width * 3)));
        ((uint8_t *)out.samples)[i] = (uint8_t)(smooth + (double)(state >> 27));
    }
    check(uf_png_write(words[0], &out));
    uf_picture_free(&out);
}

/* A disc of one colour with a soft edge, on nothing: pixels of alpha 0 in the colour of KIND,
 * "black" or "same". */
static void disc(char **words) {
    enum { SIDE = 44 };
    static const uint8_t colour[3] = {250, 240, 60};
    uf_picture out;
    check(uf_picture_create(SIDE, SIDE, 4, 8, &out));
    uint8_t *to = out.samples;
    for (int i = 0; i < SIDE * SIDE; i++, to += 4) {
        const double away = hypot(i / SIDE - 20.0, i % SIDE - 23.0) - 14.0;
        to[3] = (uint8_t)(away < -1.0 ? 255 : away > 1.0 ? 0 : 128 - 127 * away);
        for (int c = 0; c < 3; c++) {
            to[c] = to[3] == 0 && strcmp(words[1], "black") == 0 ? 0 : colour[c];
        }
    }
    check(uf_png_write(words[0], &out));
    uf_picture_free(&out);
}

static void checkpoint(char **words) {
    static float values[4096];
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    uf_store *store;
    uf_tensor *tensor;
    options.device = UF_DEVICE_CPU;
    check(uf_context_create(&options, &context));
    check(uf_store_create(context, "net", &store));
    check(uf_store_declare(store, "w", UF_SHAPE(4096), UF_ROLE_PARAMETER));
    check(uf_store_tensor(store, "w", &tensor));
    for (int i = 0; i < 4096; i++) {
        values[i] = (float)sin(i);
    }
    check(uf_tensor_upload(tensor, values));
    const uf_checkpoint_part part = uf_checkpoint_store("net", store);
    check(uf_checkpoint_save(words[0], &part, 1, NULL));
    uf_context_destroy(context);
}

static void damage(char **words) {
    FILE *file = fopen(words[0], "r+b");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 ||
        fseek(file, ftell(file) / 2, SEEK_SET) != 0) {
        stop("the file cannot be opened");
    }
    const int byte = fgetc(file);
    if (fseek(file, -1, SEEK_CUR) != 0 || fputc(byte ^ 1, file) == EOF || fclose(file) != 0) {
        stop("the file cannot be written");
    }
}

/* in.NAME.h5 with the dataset NAME for each input of a model. */
static void write_inputs(const uf_model *model) {
    uf_input_shape shapes[16];
    if (uf_model_input_count(model) > 16) {
        stop("too many inputs");
    }
    check(uf_model_input_shapes(model, NULL, 0, shapes));
    for (int32_t i = 0; i < uf_model_input_count(model); i++) {
        const bool indices = uf_model_input_dtype(model, i) == UF_I64;
        const int64_t count = uf_shape_count(&shapes[i].shape);
        double *numbers = calloc((size_t)count, sizeof *numbers);
        int64_t *places = calloc((size_t)count, sizeof *places);
        char name[256];
        for (int64_t k = 0; k < count; k++) {
            numbers[k] = sin(0.7 * (double)k) + 0.3 * cos(3.1 * (double)k);
            places[k] = k % 3;
        }
        (void)snprintf(name, sizeof name, "in.%s.h5", shapes[i].input);
        check(uf_hdf5_write(name, shapes[i].input, indices ? UF_I64 : UF_F64, shapes[i].shape,
                            indices ? (void *)places : (void *)numbers));
        free(numbers);
        free(places);
    }
}

/* A model file of a text, its weights as the initialisers make them, and inputs for it. */
static void model(char **words) {
    static char text[1 << 16];
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    uf_model *made;
    options.device = UF_DEVICE_CPU;
    FILE *file = fopen(words[0], "r");
    if (file == NULL) {
        stop("no such text");
    }
    const size_t size = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    check(uf_context_create(&options, &context));
    check(uf_model_parse(context, words[0], text, size, NULL, &made));
    if (uf_store_size(uf_model_store(made)) > 0) {
        check(uf_init_default(uf_model_graph(made), uf_model_store(made)));
    }
    check(uf_model_save(made, words[1]));
    write_inputs(made);
    uf_context_destroy(context);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        int words;
        void (*make)(char **words);
    } kinds[] = {
        {"latents", 2, latents}, {"flatten", 2, flatten},
        {"strings", 1, strings}, {"rename", 4, rename_datasets},
        {"drop", 3, drop},       {"poison", 3, poison},
        {"layer", 3, layer},     {"picture", 3, picture},
        {"noise", 3, noise},     {"checkpoint", 1, checkpoint},
        {"damage", 1, damage},   {"model", 2, model},
        {"share", 2, share},     {"disc", 2, disc},
        {"graft", 3, graft},
    };
    for (size_t i = 0; count > 1 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(words[1], kinds[i].name) == 0 && count - 2 == kinds[i].words) {
            kinds[i].make(words + 2);
            return 0;
        }
    }
    stop("no such fixture");
}
