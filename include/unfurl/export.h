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

#endif
