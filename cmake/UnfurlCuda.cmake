# The CUDA backend: is there a toolkit, for which GPUs is compiled, and how its kernels join the library.
#
#   UNFURL_CUDA                AUTO (with a toolkit that can compile for this machine's GPUs), ON (an error without
#                              one), OFF (the default as a part of another project, which may have no use for it)
#   UNFURL_CUDA_ARCHITECTURES  "native": the GPUs of this machine, sm_90a when there is none
#                              "release": every architecture that is shipped and that this toolkit knows
#                              or a list as CMAKE_CUDA_ARCHITECTURES takes it
#   UNFURL_CUDA_COMPRESS       nvcc's --compress-mode, from CUDA 13.0 on: "size" is shipped, "none" is what
#                              scripts/same-code reads
#   UNFURL_CUDA_STRICT         ON where warnings are errors: in a build for 9.0a alone a kernel fails to compile where
#                              ptxas spills registers or synchronises wgmma products on its own
#
# Sets UNFURL_HAS_CUDA, and UNFURL_CUDA_SOURCES: the C sources of the backend, or its absence.
# unfurl_add_cuda(<object library> <library>...) does the rest, after those targets are made.

set(unfurl_cuda_default OFF)
if(PROJECT_IS_TOP_LEVEL)
    set(unfurl_cuda_default AUTO)
endif()
set(UNFURL_CUDA ${unfurl_cuda_default} CACHE STRING "CUDA backend: AUTO, ON or OFF")
set_property(CACHE UNFURL_CUDA PROPERTY STRINGS AUTO ON OFF)
set(UNFURL_CUDA_ARCHITECTURES native CACHE STRING
    "GPUs to compile for: native, release, or a list such as 80;90a")
set(UNFURL_CUDA_COMPRESS size CACHE STRING "compression of the kernels: size, speed, balance, none or default")
if(CMAKE_COMPILE_WARNING_AS_ERROR)
    set(unfurl_cuda_strict ON)
else()
    set(unfurl_cuda_strict OFF)
endif()
option(UNFURL_CUDA_STRICT "spilled registers and synchronisation by ptxas are errors" ${unfurl_cuda_strict})
if(NOT UNFURL_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "UNFURL_CUDA is \"${UNFURL_CUDA}\"; it must be AUTO, ON or OFF.")
endif()

set(UNFURL_HAS_CUDA OFF)
set(UNFURL_CUDA_SOURCES kernels/cuda_absent.c)

# 7.5 to 12.0, and PTX of the newest for what comes after. 9.0 has 90a alone: all GPUs of 9.0 run it.
set(unfurl_release_architectures 75 80 86 89 90a 100 120)

# unfurl_known_list(<variable> <nvcc>): the compute capabilities that this nvcc compiles for: 75;80;...
function(unfurl_known_list variable nvcc)
    execute_process(COMMAND "${nvcc}" --list-gpu-arch
        OUTPUT_VARIABLE listed ERROR_QUIET)
    string(REGEX MATCHALL "compute_[0-9]+" known "${listed}")
    list(TRANSFORM known REPLACE "compute_" "")
    set(${variable} "${known}" PARENT_SCOPE)
endfunction()

# unfurl_release_list(<variable> <known>): the part of the release list that is known.
function(unfurl_release_list variable known)
    set(list "")
    set(newest "")
    foreach(architecture IN LISTS unfurl_release_architectures)
        # nvcc does not list the variants that hold for one chip alone, such as 90a.
        string(REGEX REPLACE "[a-z]$" "" plain "${architecture}")
        if(plain IN_LIST known)
            list(APPEND list "${architecture}-real")
            set(newest "${plain}")
        endif()
    endforeach()
    if(list)
        list(APPEND list "${newest}-virtual")
    endif()
    set(${variable} "${list}" PARENT_SCOPE)
endfunction()

# unfurl_native_list(<variable> <known>): for the GPUs that the driver shows. A GPU that the toolkit does not know gets
# PTX of the newest capability before its own, for the driver to translate. One older than all that is known gets
# nothing.
function(unfurl_native_list variable known)
    set(capabilities "")
    find_program(UNFURL_NVIDIA_SMI nvidia-smi)
    mark_as_advanced(UNFURL_NVIDIA_SMI)
    if(UNFURL_NVIDIA_SMI)
        execute_process(COMMAND "${UNFURL_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
            OUTPUT_VARIABLE shown ERROR_QUIET RESULT_VARIABLE result)
        if(result EQUAL 0)
            string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${shown}")
            list(TRANSFORM capabilities REPLACE "\\." "")
        endif()
    endif()
    if(NOT capabilities)
        set(capabilities 90)
    endif()
    set(list "")
    foreach(capability IN LISTS capabilities)
        set(before "")
        foreach(other IN LISTS known)
            if(other LESS_EQUAL capability AND (NOT before OR other GREATER before))
                set(before ${other})
            endif()
        endforeach()
        if(NOT before)
            continue()
        elseif(NOT before EQUAL capability)
            list(APPEND list ${before}-virtual)
        elseif(capability EQUAL 90)
            list(APPEND list 90a-real)
        else()
            list(APPEND list ${capability}-real)
        endif()
    endforeach()
    list(REMOVE_DUPLICATES list)
    set(${variable} "${list}" PARENT_SCOPE)
endfunction()

# Folders and files of src/kernels/cuda/conv/ whose variants only 9.0 runs.
set(unfurl_folders_90a "/(wgmma_[a-z0-9_]+|row_stream|stride2_k4|space_to_depth)/|/transform/split_f16[.]cu$")

# unfurl_architectures_90a(<variable> <architectures>): what their sources are compiled for.
function(unfurl_architectures_90a variable architectures)
    set(list ${architectures})
    list(FILTER list INCLUDE REGEX "^90a")
    if(architectures AND NOT list)
        list(GET architectures 0 list)
    endif()
    set(${variable} "${list}" PARENT_SCOPE)
endfunction()

if(NOT UNFURL_CUDA STREQUAL "OFF")
    # Toolkits do not put themselves into the PATH.
    find_program(UNFURL_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME
        PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
    mark_as_advanced(UNFURL_NVCC)
    set(CMAKE_CUDA_ARCHITECTURES "")
    if(UNFURL_NVCC)
        unfurl_known_list(unfurl_known "${UNFURL_NVCC}")
        if(UNFURL_CUDA_ARCHITECTURES STREQUAL "native")
            unfurl_native_list(CMAKE_CUDA_ARCHITECTURES "${unfurl_known}")
        elseif(UNFURL_CUDA_ARCHITECTURES STREQUAL "release")
            unfurl_release_list(CMAKE_CUDA_ARCHITECTURES "${unfurl_known}")
        else()
            set(CMAKE_CUDA_ARCHITECTURES "${UNFURL_CUDA_ARCHITECTURES}")
        endif()
        set(unfurl_no_cuda "${UNFURL_NVCC} does not compile for the GPUs of this machine")
    else()
        set(unfurl_no_cuda "there is no nvcc in the PATH or in /usr/local/cuda; UNFURL_NVCC can name it")
    endif()
    if(CMAKE_CUDA_ARCHITECTURES)
        if(NOT CMAKE_CUDA_COMPILER)
            set(CMAKE_CUDA_COMPILER "${UNFURL_NVCC}")
        endif()
        set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
        set(CMAKE_CUDA_STANDARD 17)
        set(CMAKE_CUDA_STANDARD_REQUIRED ON)
        set(CMAKE_CUDA_EXTENSIONS OFF)
        enable_language(CXX) # nvcc's host compiler
        enable_language(CUDA)
        # nvcc's -O is for host code alone, here launches with their arguments: -O3 takes three times as long as -O2 to
        # compile that. Kernels have all optimisations either way.
        string(REPLACE "-O3" "-O2" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
        find_package(CUDAToolkit REQUIRED)
        set(UNFURL_HAS_CUDA ON)
        # The folders are the list, of C here and of kernels below. What they lack does not link: kernels.def and
        # conv/registry.def name it.
        file(GLOB_RECURSE UNFURL_CUDA_SOURCES CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src"
            "${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.c")
        message(STATUS "CUDA ${CUDAToolkit_VERSION}: compiling for ${CMAKE_CUDA_ARCHITECTURES}")
    elseif(UNFURL_CUDA STREQUAL "ON")
        message(FATAL_ERROR "UNFURL_CUDA=ON, but ${unfurl_no_cuda}. UNFURL_CUDA=AUTO or OFF builds for the CPU.")
    else()
        message(STATUS "building for the CPU: ${unfurl_no_cuda}")
    endif()
endif()

# unfurl_compile_cuda(<target>...): how CUDA sources of the project are compiled.
function(unfurl_compile_cuda)
    foreach(target IN LISTS ARGV)
        target_compile_options(${target} PRIVATE
            # Host code of the kernels is C in C++'s clothes: without these it would need libstdc++.
            $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics>
            # Lines of the sources, for profilers and sanitizers: more than half of the library's size.
            $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Debug,RelWithDebInfo>>:-lineinfo>
            # A sixth of the size for a tenth more time to build; docs/performance-gpu.md has both.
            $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<VERSION_GREATER_EQUAL:${CMAKE_CUDA_COMPILER_VERSION},13.0>>:--compress-mode=${UNFURL_CUDA_COMPRESS}>)
        # Some kernels spill a few registers on older architectures.
        if(UNFURL_CUDA_STRICT AND CMAKE_CUDA_ARCHITECTURES MATCHES "^90a(-real)?$")
            target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-warn-spills>)
            # Before the user's launcher, such as ccache, which repeats what the compiler said.
            set(launcher "${PROJECT_SOURCE_DIR}/scripts/nvcc-strict" ${CMAKE_CUDA_COMPILER_LAUNCHER})
            set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
        endif()
    endforeach()
endfunction()

# unfurl_add_cuda(<object library with UNFURL_CUDA_SOURCES> <library of its objects>...)
function(unfurl_add_cuda objects)
    if(NOT UNFURL_HAS_CUDA)
        return()
    endif()
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.cu")
    # Variants that conv/registry.def gives to 9.0 alone: for other GPUs they would be compiled for nothing. With a list
    # that lacks 90a nothing launches them, and any architecture will do.
    set(kernels_90a ${kernels})
    list(FILTER kernels_90a INCLUDE REGEX "${unfurl_folders_90a}")
    list(REMOVE_ITEM kernels ${kernels_90a})
    unfurl_architectures_90a(architectures_90a "${CMAKE_CUDA_ARCHITECTURES}")
    add_library(unfurl_cuda_objects OBJECT ${kernels})
    add_library(unfurl_cuda_objects_90a OBJECT ${kernels_90a})
    set_target_properties(unfurl_cuda_objects_90a PROPERTIES CUDA_ARCHITECTURES "${architectures_90a}")
    foreach(target IN ITEMS unfurl_cuda_objects unfurl_cuda_objects_90a)
        set_target_properties(${target} PROPERTIES
            CUDA_VISIBILITY_PRESET hidden
            POSITION_INDEPENDENT_CODE ON)
        target_compile_definitions(${target} PRIVATE UF_BUILDING)
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
        unfurl_compile_cuda(${target})
    endforeach()

    target_include_directories(${objects} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    # Warpgroup products exist in code for 9.0a alone.
    set(has_90a 0)
    if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "90a")
        set(has_90a 1)
    endif()
    string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES}")
    target_compile_definitions(${objects} PRIVATE
        UF_CUDA_HAS_90A=${has_90a} "UF_CUDA_ARCHITECTURES=\"${architectures}\"")
    foreach(library IN LISTS ARGN)
        target_sources(${library} PRIVATE
            $<TARGET_OBJECTS:unfurl_cuda_objects> $<TARGET_OBJECTS:unfurl_cuda_objects_90a>)
        target_link_libraries(${library} PRIVATE CUDA::cudart_static)
        # A C program links the library: nothing of ours needs the C++ or the device linker.
        set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C CUDA_RESOLVE_DEVICE_SYMBOLS OFF)
    endforeach()
endfunction()
