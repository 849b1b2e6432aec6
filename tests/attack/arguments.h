/* arguments.h - the kinds of arguments that public functions take, and good and bad values of each.
 */
#ifndef TEST_ATTACK_ARGUMENTS_H
#define TEST_ATTACK_ARGUMENTS_H

#include "attack/world.h"

/* ARGUMENT_KIND(name, type) for each. `none` stands in the row of a function without arguments. */
#define ARGUMENT_KINDS                                                                             \
    ARGUMENT_KIND(none, int)                                                                       \
    ARGUMENT_KIND(context, uf_context *)                                                           \
    ARGUMENT_KIND(spare_context, uf_context *)                                                     \
    ARGUMENT_KIND(context_options, const uf_context_options *)                                     \
    ARGUMENT_KIND(context_out, uf_context **)                                                      \
    ARGUMENT_KIND(device, uf_device)                                                               \
    ARGUMENT_KIND(reason_out, const char **)                                                       \
    ARGUMENT_KIND(status_code, uf_status)                                                          \
    ARGUMENT_KIND(dtype, uf_dtype)                                                                 \
    ARGUMENT_KIND(real_dtype, uf_dtype)                                                            \
    ARGUMENT_KIND(number_dtype, uf_dtype)                                                          \
    ARGUMENT_KIND(extents, const int64_t *)                                                        \
    ARGUMENT_KIND(rank, int32_t)                                                                   \
    ARGUMENT_KIND(shape_in, const uf_shape *)                                                      \
    ARGUMENT_KIND(shape_out, uf_shape *)                                                           \
    ARGUMENT_KIND(shape, uf_shape)                                                                 \
    ARGUMENT_KIND(input_shape, uf_shape)                                                           \
    ARGUMENT_KIND(image_shape, uf_shape)                                                           \
    ARGUMENT_KIND(small_shape, uf_shape)                                                           \
    ARGUMENT_KIND(characters, char *)                                                              \
    ARGUMENT_KIND(capacity, int64_t)                                                               \
    ARGUMENT_KIND(room, size_t)                                                                    \
    ARGUMENT_KIND(result_room, size_t)                                                             \
    ARGUMENT_KIND(picture_room, size_t)                                                            \
    ARGUMENT_KIND(capacity32, int32_t)                                                             \
    ARGUMENT_KIND(tensor, uf_tensor *)                                                             \
    ARGUMENT_KIND(spare_tensor, uf_tensor *)                                                       \
    ARGUMENT_KIND(tensor_out, uf_tensor **)                                                        \
    ARGUMENT_KIND(borrowed_out, uf_tensor **)                                                      \
    ARGUMENT_KIND(elements_in, const void *)                                                       \
    ARGUMENT_KIND(elements_out, void *)                                                            \
    ARGUMENT_KIND(elements_or_null, void *)                                                        \
    ARGUMENT_KIND(count_of_6, int64_t)                                                             \
    ARGUMENT_KIND(any_store, uf_store *)                                                           \
    ARGUMENT_KIND(store, uf_store *)                                                               \
    ARGUMENT_KIND(open_store, uf_store *)                                                          \
    ARGUMENT_KIND(spare_store, uf_store *)                                                         \
    ARGUMENT_KIND(store_out, uf_store **)                                                          \
    ARGUMENT_KIND(store_options, const uf_store_options *)                                         \
    ARGUMENT_KIND(store_entry_out, uf_store_entry *)                                               \
    ARGUMENT_KIND(any_text, const char *)                                                          \
    ARGUMENT_KIND(path_format, const char *)                                                       \
    ARGUMENT_KIND(store_name, const char *)                                                        \
    ARGUMENT_KIND(new_name, const char *)                                                          \
    ARGUMENT_KIND(open_name, const char *)                                                         \
    ARGUMENT_KIND(weight_name, const char *)                                                       \
    ARGUMENT_KIND(input_name, const char *)                                                        \
    ARGUMENT_KIND(output_name, const char *)                                                       \
    ARGUMENT_KIND(group_name, const char *)                                                        \
    ARGUMENT_KIND(object_name, const char *)                                                       \
    ARGUMENT_KIND(attribute_name, const char *)                                                    \
    ARGUMENT_KIND(keras_path, const char *)                                                        \
    ARGUMENT_KIND(weights_path, const char *)                                                      \
    ARGUMENT_KIND(attribute_path, const char *)                                                    \
    ARGUMENT_KIND(picture_path, const char *)                                                      \
    ARGUMENT_KIND(new_path, const char *)                                                          \
    ARGUMENT_KIND(any_path, const char *)                                                          \
    ARGUMENT_KIND(role, uf_role)                                                                   \
    ARGUMENT_KIND(index, int64_t)                                                                  \
    ARGUMENT_KIND(first, int32_t)                                                                  \
    ARGUMENT_KIND(scope, uf_scope)                                                                 \
    ARGUMENT_KIND(graph, uf_graph *)                                                               \
    ARGUMENT_KIND(spare_graph, uf_graph *)                                                         \
    ARGUMENT_KIND(graph_out, uf_graph **)                                                          \
    ARGUMENT_KIND(text_file, FILE *)                                                               \
    ARGUMENT_KIND(line_function, uf_line_function)                                                 \
    ARGUMENT_KIND(image, uf_value)                                                                 \
    ARGUMENT_KIND(sequence, uf_value)                                                              \
    ARGUMENT_KIND(flat, uf_value)                                                                  \
    ARGUMENT_KIND(constant_shape, uf_shape)                                                        \
    ARGUMENT_KIND(weight_shape, uf_shape)                                                          \
    ARGUMENT_KIND(custom_definition, const uf_custom_definition *)                                 \
    ARGUMENT_KIND(weight_dim, int32_t)                                                             \
    ARGUMENT_KIND(filters, uf_value)                                                               \
    ARGUMENT_KIND(matrix, uf_value)                                                                \
    ARGUMENT_KIND(biases, uf_value)                                                                \
    ARGUMENT_KIND(images_in, const uf_value *)                                                     \
    ARGUMENT_KIND(image_count, int32_t)                                                            \
    ARGUMENT_KIND(axes_in, const int32_t *)                                                        \
    ARGUMENT_KIND(axis_count, int32_t)                                                             \
    ARGUMENT_KIND(softmax_axis, int32_t)                                                           \
    ARGUMENT_KIND(axis_order, const int32_t *)                                                     \
    ARGUMENT_KIND(axis_order_count, int32_t)                                                       \
    ARGUMENT_KIND(axis, int32_t)                                                                   \
    ARGUMENT_KIND(slice_start, int64_t)                                                            \
    ARGUMENT_KIND(slice_stop, int64_t)                                                             \
    ARGUMENT_KIND(shuffle_factor, int64_t)                                                         \
    ARGUMENT_KIND(upsample_options, const uf_upsample_options *)                                   \
    ARGUMENT_KIND(max_pool_options, const uf_max_pool2d_options *)                                 \
    ARGUMENT_KIND(avg_pool_options, const uf_avg_pool2d_options *)                                 \
    ARGUMENT_KIND(channels, int64_t)                                                               \
    ARGUMENT_KIND(flag, bool)                                                                      \
    ARGUMENT_KIND(number, double)                                                                  \
    ARGUMENT_KIND(finite, double)                                                                  \
    ARGUMENT_KIND(rate, double)                                                                    \
    ARGUMENT_KIND(random_step, int64_t)                                                            \
    ARGUMENT_KIND(pad_mode, uf_pad_mode)                                                           \
    ARGUMENT_KIND(amount, int64_t)                                                                 \
    ARGUMENT_KIND(upscale_factor, int64_t)                                                         \
    ARGUMENT_KIND(conv_transpose_options, const uf_conv_transpose2d_options *)                     \
    ARGUMENT_KIND(conv_options, const uf_conv2d_options *)                                         \
    ARGUMENT_KIND(loss_kind, uf_loss_kind)                                                         \
    ARGUMENT_KIND(loss_options, const uf_loss_options *)                                           \
    ARGUMENT_KIND(conv_transpose1d_options, const uf_conv_transpose1d_options *)                   \
    ARGUMENT_KIND(conv1d_options, const uf_conv1d_options *)                                       \
    ARGUMENT_KIND(labels, uf_value)                                                                \
    ARGUMENT_KIND(batch_norm_options, const uf_batch_norm2d_options *)                             \
    ARGUMENT_KIND(instance_norm_options, const uf_instance_norm_options *)                         \
    ARGUMENT_KIND(group_norm_options, const uf_group_norm_options *)                               \
    ARGUMENT_KIND(layer_norm_options, const uf_layer_norm_options *)                               \
    ARGUMENT_KIND(penalty_options, const uf_gradient_penalty_options *)                            \
    ARGUMENT_KIND(program, uf_program *)                                                           \
    ARGUMENT_KIND(spare_program, uf_program *)                                                     \
    ARGUMENT_KIND(program_out, uf_program **)                                                      \
    ARGUMENT_KIND(profile_runs, int32_t)                                                           \
    ARGUMENT_KIND(profile_out, uf_profile_row **)                                                  \
    ARGUMENT_KIND(spare_profile, uf_profile_row *)                                                 \
    ARGUMENT_KIND(nonfinite_out, uf_nonfinite *)                                                   \
    ARGUMENT_KIND(io_index, int32_t)                                                               \
    ARGUMENT_KIND(program_options, const uf_program_options *)                                     \
    ARGUMENT_KIND(numbers_out, double *)                                                           \
    ARGUMENT_KIND(integer_out, int64_t *)                                                          \
    ARGUMENT_KIND(integer32_out, int32_t *)                                                        \
    ARGUMENT_KIND(size_out, size_t *)                                                              \
    ARGUMENT_KIND(flag_out, bool *)                                                                \
    ARGUMENT_KIND(keras_options, const uf_weights_load_options *)                                  \
    ARGUMENT_KIND(load_options, const uf_weights_load_options *)                                   \
    ARGUMENT_KIND(save_options, const uf_weights_save_options *)                                   \
    ARGUMENT_KIND(convert_options, const uf_weights_convert_options *)                             \
    ARGUMENT_KIND(open_options, const uf_weights_open_options *)                                   \
    ARGUMENT_KIND(weights_format, uf_weights_format)                                               \
    ARGUMENT_KIND(weights_file, uf_weights_file *)                                                 \
    ARGUMENT_KIND(spare_weights_file, uf_weights_file *)                                           \
    ARGUMENT_KIND(weights_file_out, uf_weights_file **)                                            \
    ARGUMENT_KIND(weights_index, int64_t)                                                          \
    ARGUMENT_KIND(weights_entry_out, uf_weights_entry *)                                           \
    ARGUMENT_KIND(text_out, const char **)                                                         \
    ARGUMENT_KIND(checkpoint_path, const char *)                                                   \
    ARGUMENT_KIND(checkpoint_parts, const uf_checkpoint_part *)                                    \
    ARGUMENT_KIND(checkpoint_count, int32_t)                                                       \
    ARGUMENT_KIND(checkpoint_room, size_t)                                                         \
    ARGUMENT_KIND(checkpoint_options, const uf_checkpoint_options *)                               \
    ARGUMENT_KIND(entries_out, uf_hdf5_entry **)                                                   \
    ARGUMENT_KIND(spare_entries, uf_hdf5_entry *)                                                  \
    ARGUMENT_KIND(nonlinearity, uf_nonlinearity)                                                   \
    ARGUMENT_KIND(kaiming_options, const uf_kaiming_options *)                                     \
    ARGUMENT_KIND(adam_options, const uf_adam_options *)                                           \
    ARGUMENT_KIND(sgd_options, const uf_sgd_options *)                                             \
    ARGUMENT_KIND(rmsprop_options, const uf_rmsprop_options *)                                     \
    ARGUMENT_KIND(trained_scope, uf_scope)                                                         \
    ARGUMENT_KIND(group_options, const uf_optimizer_group_options *)                               \
    ARGUMENT_KIND(average, uf_store *)                                                             \
    ARGUMENT_KIND(ema_options, const uf_ema_options *)                                             \
    ARGUMENT_KIND(ema, uf_ema *)                                                                   \
    ARGUMENT_KIND(spare_ema, uf_ema *)                                                             \
    ARGUMENT_KIND(ema_out, uf_ema **)                                                              \
    ARGUMENT_KIND(decay, double)                                                                   \
    ARGUMENT_KIND(schedule, const uf_schedule *)                                                   \
    ARGUMENT_KIND(optimizer, uf_optimizer *)                                                       \
    ARGUMENT_KIND(spare_optimizer, uf_optimizer *)                                                 \
    ARGUMENT_KIND(optimizer_out, uf_optimizer **)                                                  \
    ARGUMENT_KIND(gradcheck_options, const uf_gradcheck_options *)                                 \
    ARGUMENT_KIND(gradcheck_out, uf_gradcheck_result *)                                            \
    ARGUMENT_KIND(extent, int64_t)                                                                 \
    ARGUMENT_KIND(picture_channels, int32_t)                                                       \
    ARGUMENT_KIND(picture_depth, int32_t)                                                          \
    ARGUMENT_KIND(picture_out, uf_picture *)                                                       \
    ARGUMENT_KIND(spare_picture, uf_picture *)                                                     \
    ARGUMENT_KIND(png_read_options, const uf_png_read_options *)                                   \
    ARGUMENT_KIND(picture_in, const uf_picture *)                                                  \
    ARGUMENT_KIND(picture_head, const uf_picture *)                                                \
    ARGUMENT_KIND(png_write_options, const uf_png_write_options *)                                 \
    ARGUMENT_KIND(png_writer, uf_png_writer *)                                                     \
    ARGUMENT_KIND(full_png_writer, uf_png_writer *)                                                \
    ARGUMENT_KIND(spare_png_writer, uf_png_writer *)                                               \
    ARGUMENT_KIND(png_writer_out, uf_png_writer **)                                                \
    ARGUMENT_KIND(picture_rows, int64_t)                                                           \
    ARGUMENT_KIND(tiles_options, const uf_tiles_options *)                                         \
    ARGUMENT_KIND(tiles_plan_out, uf_tiles_plan *)                                                 \
    ARGUMENT_KIND(picture_format, uf_picture_format)                                               \
    ARGUMENT_KIND(picture_read_options, const uf_picture_read_options *)                           \
    ARGUMENT_KIND(picture_write_options, const uf_picture_write_options *)                         \
    ARGUMENT_KIND(picture_writer, uf_picture_writer *)                                             \
    ARGUMENT_KIND(full_picture_writer, uf_picture_writer *)                                        \
    ARGUMENT_KIND(spare_picture_writer, uf_picture_writer *)                                       \
    ARGUMENT_KIND(picture_writer_out, uf_picture_writer **)                                        \
    ARGUMENT_KIND(conv_args, const uf_conv2d_args *)                                               \
    ARGUMENT_KIND(activation_args, const uf_activation_args *)                                     \
    ARGUMENT_KIND(batch_norm_args, const uf_batch_norm2d_args *)                                   \
    ARGUMENT_KIND(pad_args, const uf_pad2d_args *)                                                 \
    ARGUMENT_KIND(conv_params, const uf_conv2d_params *)                                           \
    ARGUMENT_KIND(pair, const int64_t *)                                                           \
    ARGUMENT_KIND(pair5, const int64_t *)                                                          \
    ARGUMENT_KIND(pair_out, int64_t *)                                                             \
    ARGUMENT_KIND(operation, uf_conv2d_operation)                                                  \
    ARGUMENT_KIND(tuning_out, uf_tuning_result *)                                                  \
    ARGUMENT_KIND(model, uf_model *)                                                               \
    ARGUMENT_KIND(spare_model, uf_model *)                                                         \
    ARGUMENT_KIND(model_out, uf_model **)                                                          \
    ARGUMENT_KIND(model_path, const char *)                                                        \
    ARGUMENT_KIND(model_options, const uf_model_options *)                                         \
    ARGUMENT_KIND(ncnn_param, const char *)                                                        \
    ARGUMENT_KIND(ncnn_bin, const char *)                                                          \
    ARGUMENT_KIND(ncnn_options, const uf_ncnn_options *)                                           \
    ARGUMENT_KIND(picture_text, const char *)                                                      \
    ARGUMENT_KIND(model_text, const char *)                                                        \
    ARGUMENT_KIND(model_text_size, size_t)                                                         \
    ARGUMENT_KIND(value_out, uf_value *)                                                           \
    ARGUMENT_KIND(given_shapes, const uf_input_shape *)                                            \
    ARGUMENT_KIND(given_count, int32_t)                                                            \
    ARGUMENT_KIND(shapes_out, uf_input_shape *)                                                    \
    ARGUMENT_KIND(picture_map, const uf_picture_map *)                                             \
    ARGUMENT_KIND(picture_map_out, uf_picture_map *)

typedef enum argument_kind {
#define ARGUMENT_KIND(name, type) KIND_##name,
    ARGUMENT_KINDS
#undef ARGUMENT_KIND
        KIND_COUNT
} argument_kind;

typedef union argument_value {
#define ARGUMENT_KIND(name, type) type name;
    ARGUMENT_KINDS
#undef ARGUMENT_KIND
} argument_value;

typedef enum argument_sort {
    GOOD,  /* with good values beside it the call succeeds */
    BAD,   /* the call must fail, whatever is beside it */
    EITHER /* the call must give a defined answer */
} argument_sort;

typedef struct argument {
    argument_value value;
    argument_sort sort;
    const char *label;
    void **made; /* an object that the call makes; NULL after a failure */
    union {
        unsigned char bytes[2048];
        double number;
        void *pointer;
    } storage; /* behind pointers */
} argument;

/* Value number `index` of a kind; false when there are fewer. One at least is good. */
bool argument_get(world *one, argument_kind kind, int index, argument *result);

/* The first good value of a kind. */
void argument_get_good(world *one, argument_kind kind, argument *result);

#endif
