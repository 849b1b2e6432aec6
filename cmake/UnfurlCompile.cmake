# How everything of the project is compiled. unfurl_compile(<target>...) applies it.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# The build type belongs to the project that is built; as a part of another unfurl only says that it is missing.
get_property(unfurl_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT unfurl_multi_config)
    if(PROJECT_IS_TOP_LEVEL)
        set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
    else()
        message(STATUS "unfurl: CMAKE_BUILD_TYPE is empty, so it is compiled without optimisation")
    endif()
endif()
if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

# "address,undefined" or "thread"; the presets asan and tsan set it.
set(UNFURL_SANITIZE "" CACHE STRING "Sanitizers to compile in, as -fsanitize takes them")

function(unfurl_compile)
    foreach(target IN LISTS ARGV)
        target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L)
        target_compile_options(${target} PRIVATE
            -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wundef -Wdouble-promotion -Wcast-qual
            $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
            $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
            # Bits must not depend on which products a compiler chose to contract: where a fused
            # multiply-add is wanted, the code says fma.
            -ffp-contract=off)
        if(UNFURL_SANITIZE)
            target_compile_options(${target} PRIVATE
                -fsanitize=${UNFURL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
            target_link_options(${target} PRIVATE -fsanitize=${UNFURL_SANITIZE})
        endif()
    endforeach()
endfunction()
