# safetensors files, whose headers jansson parses.
#
#   UNFURL_SAFETENSORS   AUTO (with jansson where it is found), ON (an error without it), OFF (a file of that format is
#                        refused with a sentence)
#
# Sets UNFURL_HAS_SAFETENSORS, UNFURL_SAFETENSORS_SOURCES and UNFURL_SAFETENSORS_LIBRARIES.

set(UNFURL_SAFETENSORS AUTO CACHE STRING "safetensors files, by jansson: AUTO, ON or OFF")
set_property(CACHE UNFURL_SAFETENSORS PROPERTY STRINGS AUTO ON OFF)
if(NOT UNFURL_SAFETENSORS MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "UNFURL_SAFETENSORS is \"${UNFURL_SAFETENSORS}\"; it must be AUTO, ON or OFF.")
endif()

set(UNFURL_HAS_SAFETENSORS OFF)
set(UNFURL_SAFETENSORS_SOURCES io/safetensors_absent.c)
set(UNFURL_SAFETENSORS_LIBRARIES "")
if(NOT UNFURL_SAFETENSORS STREQUAL "OFF")
    find_path(UNFURL_JANSSON_INCLUDE jansson.h)
    find_library(UNFURL_JANSSON_LIBRARY jansson)
    mark_as_advanced(UNFURL_JANSSON_INCLUDE UNFURL_JANSSON_LIBRARY)
    if(UNFURL_JANSSON_INCLUDE AND UNFURL_JANSSON_LIBRARY)
        set(UNFURL_HAS_SAFETENSORS ON)
        set(UNFURL_SAFETENSORS_SOURCES io/safetensors.c io/safetensors_header.c)
        # Whoever links the installed static library finds jansson by its name.
        set(UNFURL_SAFETENSORS_LIBRARIES
            $<BUILD_INTERFACE:${UNFURL_JANSSON_LIBRARY}> $<INSTALL_INTERFACE:jansson>)
    elseif(UNFURL_SAFETENSORS STREQUAL "ON")
        message(FATAL_ERROR "UNFURL_SAFETENSORS is ON and jansson was not found: install libjansson-dev.")
    else()
        message(STATUS "unfurl: without safetensors files, since jansson was not found (libjansson-dev)")
    endif()
endif()
