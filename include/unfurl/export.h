/* export.h - how public symbols are declared. */
#ifndef UNFURL_EXPORT_H
#define UNFURL_EXPORT_H

#define UF_VERSION_MAJOR 0
#define UF_VERSION_MINOR 2
#define UF_VERSION_PATCH 0
#define UF_VERSION_STRING "0.2.0"

#if defined(UF_STATIC)
#define UF_API
#elif defined(_WIN32) && defined(UF_BUILDING)
#define UF_API __declspec(dllexport)
#elif defined(_WIN32)
#define UF_API __declspec(dllimport)
#else
#define UF_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__) || defined(__clang__)
#define UF_NODISCARD __attribute__((warn_unused_result))
#define UF_PRINTF(format_index, first_argument)                                                    \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define UF_NODISCARD
#define UF_PRINTF(format_index, first_argument)
#endif

#ifdef __cplusplus
#define UF_BEGIN_DECLS extern "C" {
#define UF_END_DECLS }
#else
#define UF_BEGIN_DECLS
#define UF_END_DECLS
#endif

/* A pointer to the options that an expression gives, for one call: UF_OPTIONS(uf_sgd_options,
 * my_sgd(0.1)). It is not to be kept: in C++ the options live as long as the whole expression, in C
 * as the block around it. */
#ifdef __cplusplus
extern "C++" { /* a template, whatever is around the #include */
template <typename type>
inline const type *uf_options_of(const type &options) {
    return &options;
}
}
#define UF_OPTIONS(type, options) uf_options_of<type>(options)
#else
#define UF_OPTIONS(type, options) ((const type[1]){options})
#endif

#endif
