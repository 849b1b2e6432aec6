# What `cmake --install` puts where, and the two ways others find it: find_package and pkg-config.

include(CMakePackageConfigHelpers)

set(unfurl_data_dir "${CMAKE_INSTALL_DATADIR}/unfurl")
set(unfurl_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/unfurl")

install(DIRECTORY include/unfurl DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.h")
install(DIRECTORY weights DESTINATION "${unfurl_data_dir}" FILES_MATCHING PATTERN "*.h5")
install(FILES LICENSE NOTICE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# Two export sets: who links the shared library need not have HDF5 and PNG for developers.
install(TARGETS unfurl EXPORT unfurl-shared
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS unfurl_static EXPORT unfurl-static
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(kind shared static)
    install(EXPORT unfurl-${kind} NAMESPACE unfurl:: FILE unfurl-${kind}-targets.cmake
        DESTINATION "${unfurl_package_dir}")
endforeach()
configure_package_config_file(cmake/unfurl-config.cmake.in unfurl-config.cmake
    INSTALL_DESTINATION "${unfurl_package_dir}"
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(unfurl-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/unfurl-config.cmake"
    "${PROJECT_BINARY_DIR}/unfurl-config-version.cmake"
    DESTINATION "${unfurl_package_dir}")

# unfurl.pc finds its prefix from where it lies, so that an installed tree can be moved.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
    OUTPUT_VARIABLE unfurl_pc_dir)
cmake_path(APPEND unfurl_pc_dir pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${unfurl_pc_dir}"
    OUTPUT_VARIABLE unfurl_pc_prefix)
set(UNFURL_PC_CUDA_LIBS "")
if(UNFURL_HAS_CUDA)
    set(UNFURL_PC_CUDA_LIBS "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ")
endif()
configure_file(cmake/unfurl.pc.in unfurl.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/unfurl.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
