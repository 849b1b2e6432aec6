/* export_store IN OUT f32|f64 [TIED NAME]: what a user's program does to hand weights back to
 * PyTorch, in HDF5 or safetensors. */
#include <stdio.h>
#include <string.h>

#include <unfurl/unfurl.h>

static uf_status export_store(uf_context *context, uf_store *store, int argc, char **argv) {
    if (argc > 5) {
        /* Tied weights: declared once, loaded and saved under both names. */
        uf_store_entry entry;
        uf_store *scratch;
        UF_TRY(uf_store_create(context, "scratch", &scratch));
        uf_status status = uf_weights_load(scratch, argv[1], NULL);
        for (int64_t i = 0; i < uf_store_size(scratch) && status == UF_OK; ++i) {
            status = uf_store_entry_at(scratch, i, &entry);
            if (status == UF_OK && strcmp(entry.name, argv[4]) != 0) {
                status = uf_store_declare(store, entry.name, entry.shape, entry.role);
            }
        }
        uf_store_destroy(scratch);
        UF_TRY(status);
        UF_TRY(uf_store_alias(store, argv[4], argv[5]));
    }
    UF_TRY(uf_weights_load(store, argv[1], NULL));
    return uf_weights_save(store, argv[2], NULL);
}

int main(int argc, char **argv) {
    uf_context *context = NULL;
    uf_store *store = NULL;
    if (argc != 4 && argc != 6) {
        fprintf(stderr, "export_store IN OUT f32|f64 [TIED NAME]\n");
        return 2;
    }
    uf_context_options on_cpu = uf_context_options_default();
    on_cpu.device = UF_DEVICE_CPU;
    uf_store_options options = uf_store_options_default();
    options.dtype = strcmp(argv[3], "f64") == 0 ? UF_F64 : UF_F32;
    uf_status status = uf_context_create(&on_cpu, &context);
    if (status == UF_OK) {
        status = uf_store_create_with(context, "exported", &options, &store);
    }
    if (status == UF_OK) {
        status = export_store(context, store, argc, argv);
    }
    if (status != UF_OK) {
        fprintf(stderr, "%s\n", uf_last_error());
    }
    uf_store_destroy(store);
    uf_context_destroy(context);
    return status == UF_OK ? 0 : 1;
}
