/* devices.c - `unfurl devices`: what there is to compute on. */
#include "command.h"

#include <inttypes.h>
#include <stddef.h>

#include "json.h"

struct devices_arguments {
    bool json;
};

/* Where the list goes: a line or an object for each device. */
struct listing {
    bool as_json;
    struct json json;
};

static void list_device(struct listing *listing, const char *kind, int32_t index, bool usable,
                        const char *description) {
    if (!listing->as_json) {
        if (usable) {
            say("%s %" PRId32 "  %s", kind, index, description);
        } else {
            say("%s -  not usable: %s", kind, description);
        }
        return;
    }
    json_open(&listing->json, NULL, '{');
    json_text(&listing->json, "kind", kind);
    if (usable) {
        json_integer(&listing->json, "index", index);
    }
    json_bool(&listing->json, "usable", usable);
    json_text(&listing->json, usable ? "description" : "reason", description);
    json_close(&listing->json, '}');
}

static void list_kind(struct listing *listing, uf_device device, const char *kind) {
    const char *reason = NULL;
    int32_t count = uf_device_count(device, &reason);
    for (int32_t i = 0; i < count; i++) {
        uf_context_options options = uf_context_options_default();
        options.device = device;
        options.device_index = i;
        uf_context *context = NULL;
        bool usable = uf_context_create(&options, &context) == UF_OK;
        list_device(listing, kind, i, usable,
                    usable ? uf_context_description(context) : uf_last_error());
        uf_context_destroy(context);
    }
    if (count == 0) {
        list_device(listing, kind, -1, false, reason != NULL ? reason : "none found");
    }
}

static int devices_run(const void *parsed) {
    const struct devices_arguments *arguments = parsed;
    struct listing listing = {.as_json = arguments->json, .json = json_begin(stdout)};
    if (arguments->json) {
        json_open(&listing.json, NULL, '{');
        json_open(&listing.json, "devices", '[');
    }
    list_kind(&listing, UF_DEVICE_CPU, "cpu");
    list_kind(&listing, UF_DEVICE_CUDA, "cuda");
    if (arguments->json) {
        json_close(&listing.json, ']');
        json_close(&listing.json, '}');
    }
    return EXIT_DONE;
}

static const struct option devices_options[] = {
    {.kind = OPTION_FLAG,
     .name = "json",
     .help = "print the list as JSON",
     .offset = offsetof(struct devices_arguments, json)},
};

const struct command command_devices = {
    .name = "devices",
    .summary = "List the devices that unfurl can compute on.",
    .example = "unfurl devices",
    .options = devices_options,
    .option_count = sizeof devices_options / sizeof devices_options[0],
    .arguments_size = sizeof(struct devices_arguments),
    .run = devices_run,
};
