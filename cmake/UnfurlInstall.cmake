# What `cmake --install` puts where, and the two ways others find it: find_package and pkg-config.
#
# Components, for `cmake --install --component`:
#   runtime      the shared library, and its licence
#   development  headers, the static library, the files of find_package and pkg-config
#   tools        the command, its manual pages, completions and weights
#   doc          README, docs/
#   examples     examples/, as sources

include(CMakePackageConfigHelpers)

set(unfurl_data_dir "${CMAKE_INSTALL_DATADIR}/unfurl")
set(unfurl_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/unfurl")

install(DIRECTORY include/unfurl DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
    FILES_MATCHING PATTERN "*.h")
install(DIRECTORY weights DESTINATION "${unfurl_data_dir}" COMPONENT tools FILES_MATCHING PATTERN "*.h5")
install(PROGRAMS python/unfurl_export.py scripts/fetch-networks DESTINATION "${unfurl_data_dir}" COMPONENT tools)

# The documentation lies as in the source tree, so that links between its files hold; headers lie elsewhere.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_DOCDIR}"
    OUTPUT_VARIABLE unfurl_include_from_doc)
file(READ README.md unfurl_readme)
string(REPLACE "](include/" "](${unfurl_include_from_doc}/" unfurl_readme "${unfurl_readme}")
file(WRITE "${PROJECT_BINARY_DIR}/README.md" "${unfurl_readme}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS README.md)
install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
install(FILES "${PROJECT_BINARY_DIR}/README.md" CHANGELOG.md CONTRIBUTING.md
    DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT doc)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT doc)
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT examples
    PATTERN .clang-format EXCLUDE
    PATTERN __pycache__ EXCLUDE
    PATTERN examples/CMakeLists.txt EXCLUDE) # builds them in the source tree

# Two export sets: who links the shared library need not have HDF5 and PNG for developers.
install(TARGETS unfurl EXPORT unfurl-shared
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS unfurl_static EXPORT unfurl-static
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
foreach(kind shared static)
    install(EXPORT unfurl-${kind} NAMESPACE unfurl:: FILE unfurl-${kind}-targets.cmake
        DESTINATION "${unfurl_package_dir}" COMPONENT development)
endforeach()
configure_package_config_file(cmake/unfurl-config.cmake.in unfurl-config.cmake
    INSTALL_DESTINATION "${unfurl_package_dir}"
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(unfurl-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/unfurl-config.cmake"
    "${PROJECT_BINARY_DIR}/unfurl-config-version.cmake"
    DESTINATION "${unfurl_package_dir}" COMPONENT development)

# The .pc files find their prefix from where they lie, so that an installed tree can be moved.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
    OUTPUT_VARIABLE unfurl_pc_dir)
cmake_path(APPEND unfurl_pc_dir pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${unfurl_pc_dir}"
    OUTPUT_VARIABLE unfurl_pc_prefix)
# Of the static library, besides what has .pc files of its own.
set(UNFURL_PC_LIBS "-pthread -lm")
if(UNFURL_HAS_CUDA)
    string(PREPEND UNFURL_PC_LIBS "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ")
endif()
set(UNFURL_PC_JPEG "")
if(UNFURL_HAS_JPEG)
    set(UNFURL_PC_JPEG " libjpeg")
endif()
foreach(name IN ITEMS unfurl unfurl-static)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
        COMPONENT development)
endforeach()

# `cpack` in the build tree makes one archive of all this, which runs wherever it is unpacked.
if(PROJECT_IS_TOP_LEVEL)
    set(CPACK_GENERATOR TGZ)
    set(CPACK_VERBATIM_VARIABLES ON)
    set(CPACK_PACKAGE_FILE_NAME "unfurl-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
    set(CPACK_SOURCE_GENERATOR "") # a clone has the sources
    include(CPack)
    unfurl_record_files()
endif()
