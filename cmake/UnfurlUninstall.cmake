# The target `uninstall`: removes what `cmake --install` wrote from this build tree since the last time, and the folders
# that it made. Folders that were there before stay, empty or not.
#
# This file is included before all other rules of installation: its script runs first, and notes which folders are
# missing. unfurl_record_files(), called after all others, notes the files. CPack's copies are not noted.

set(unfurl_record "${PROJECT_BINARY_DIR}/installation")

set(unfurl_destinations "")
foreach(folder IN ITEMS
        "${CMAKE_INSTALL_BINDIR}"
        "${CMAKE_INSTALL_INCLUDEDIR}/unfurl"
        "${CMAKE_INSTALL_LIBDIR}/cmake/unfurl"
        "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
        "${CMAKE_INSTALL_DATADIR}/unfurl"
        "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
        "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
        "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
        "${CMAKE_INSTALL_MANDIR}/man1"
        "${CMAKE_INSTALL_DOCDIR}")
    string(APPEND unfurl_destinations " \"${folder}\"")
endforeach()
install(CODE "
set(unfurl_record \"${unfurl_record}\")
set(unfurl_destinations${unfurl_destinations})" ALL_COMPONENTS)
install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/record_folders.cmake" ALL_COMPONENTS)

set(unfurl_record_files_script "${CMAKE_CURRENT_LIST_DIR}/record_files.cmake")
function(unfurl_record_files)
    install(SCRIPT "${unfurl_record_files_script}" ALL_COMPONENTS)
endfunction()

add_custom_target(uninstall
    COMMAND "${CMAKE_COMMAND}" -D "RECORD=${unfurl_record}" -P "${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake"
    COMMENT "Removing what was installed" VERBATIM)
