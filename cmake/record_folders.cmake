# Before files are installed: adds to unfurl_record/folders.txt each folder, on the way to one of unfurl_destinations,
# that the installation is going to make. Of nested ones the outermost is noted.

if(CMAKE_INSTALL_PREFIX MATCHES "/_CPack_Packages/")
    return()
endif()
foreach(unfurl_folder IN LISTS unfurl_destinations)
    cmake_path(ABSOLUTE_PATH unfurl_folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
    string(PREPEND unfurl_folder "$ENV{DESTDIR}")
    cmake_path(NORMAL_PATH unfurl_folder)
    set(unfurl_outermost "")
    while(NOT EXISTS "${unfurl_folder}" AND NOT unfurl_folder STREQUAL unfurl_outermost)
        set(unfurl_outermost "${unfurl_folder}")
        cmake_path(GET unfurl_folder PARENT_PATH unfurl_folder)
    endwhile()
    if(unfurl_outermost)
        file(APPEND "${unfurl_record}/folders.txt" "${unfurl_outermost}\n")
    endif()
endforeach()
