# After files were installed: adds them to unfurl_record/files.txt.

if(CMAKE_INSTALL_PREFIX MATCHES "/_CPack_Packages/")
    return()
endif()
foreach(unfurl_file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
    file(APPEND "${unfurl_record}/files.txt" "$ENV{DESTDIR}${unfurl_file}\n")
endforeach()
