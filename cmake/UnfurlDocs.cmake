# The target `docs`: a reference of the API in HTML, made by doxygen from the public headers, in share/doc/unfurl/api of
# the build tree. It is installed where it was made. Without doxygen there is no such target.

find_package(Doxygen QUIET)
find_program(UNFURL_AWK awk)
mark_as_advanced(UNFURL_AWK)
if(NOT DOXYGEN_FOUND OR NOT UNFURL_AWK)
    return()
endif()

set(unfurl_api "${PROJECT_BINARY_DIR}/share/doc/unfurl/api")
set(DOXYGEN_PROJECT_NUMBER ${PROJECT_VERSION})
set(DOXYGEN_OUTPUT_DIRECTORY "${unfurl_api}")
set(DOXYGEN_HTML_OUTPUT .)
set(DOXYGEN_OPTIMIZE_OUTPUT_FOR_C YES)
set(DOXYGEN_FILTER_PATTERNS "\"*.h=${UNFURL_AWK} -f ${PROJECT_SOURCE_DIR}/cmake/doxygen.awk\"")
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_MARKDOWN_SUPPORT NO)        # a product is no emphasis
set(DOXYGEN_DISTRIBUTE_GROUP_DOC YES)   # one comment for several functions
set(DOXYGEN_TYPEDEF_HIDES_STRUCT YES)
set(DOXYGEN_EXTRACT_ALL YES)            # names say what they are where no comment does
set(DOXYGEN_EXTRACT_STATIC YES)         # the defaults of options are inline functions
set(DOXYGEN_SORT_MEMBER_DOCS NO)        # the headers' order
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED UF_API= UF_NODISCARD= UF_BEGIN_DECLS= UF_END_DECLS= "UF_PRINTF(a,b)=")
set(DOXYGEN_EXCLUDE_SYMBOLS UF_API UF_BEGIN_DECLS UF_END_DECLS UF_NODISCARD UF_PRINTF "UNFURL_*_H")
set(DOXYGEN_STRIP_FROM_PATH "${PROJECT_SOURCE_DIR}/include")
set(DOXYGEN_STRIP_FROM_INC_PATH "${PROJECT_SOURCE_DIR}/include")
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_QUIET YES)
if(CMAKE_COMPILE_WARNING_AS_ERROR)
    set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
endif()
doxygen_add_docs(docs "${PROJECT_SOURCE_DIR}/include/unfurl" "${PROJECT_SOURCE_DIR}/cmake/api.dox"
    COMMENT "The reference of the API")
if(UNFURL_INSTALL)
    install(DIRECTORY "${unfurl_api}" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT doc OPTIONAL)
endif()
