# Programs with the main loop that docs/adding-a-kernel.md adds, from a tree that tests/scripts/adding_a_kernel.sh makes;
# nothing else builds them. What the page changes is compiled from there, and the library of this build is behind it.

set(added "${PROJECT_BINARY_DIR}/adding_a_kernel")

# added_target(<name>): its headers are those of the tree.
function(added_target name)
    target_include_directories(${name} BEFORE PRIVATE "${added}/src" "${added}/include" "${added}/tests")
    set_target_properties(${name} PROPERTIES COMPILE_WARNING_AS_ERROR ON)
endfunction()

# added_program(<name> <path in the tree>...)
function(added_program name)
    list(TRANSFORM ARGN PREPEND "${added}/")
    set_source_files_properties(${ARGN} PROPERTIES GENERATED ON)
    add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
    added_target(${name})
    target_link_libraries(${name} PRIVATE test_cases)
    unfurl_compile(${name})
endfunction()

set(conv src/kernels/cuda/conv)
added_program(test_added_plan tests/cuda/added_kernel.c tests/support/conv_variants.c
    ${conv}/limits.c ${conv}/registry.c ${conv}/select/choose.c ${conv}/select/cost.c ${conv}/pointwise/plan.c)

set(added_ops "")
if(UNFURL_HAS_CUDA)
    set_source_files_properties("${added}/${conv}/pointwise/launch.cu" PROPERTIES GENERATED ON)
    add_library(test_added_launch OBJECT EXCLUDE_FROM_ALL "${added}/${conv}/pointwise/launch.cu")
    added_target(test_added_launch)
    unfurl_compile_cuda(test_added_launch)

    # Everything that counts the variants.
    file(GLOB select CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${conv}/select/*.c")
    added_program(test_added_ops tests/ops/test_ops.c tests/support/conv_variants.c
        ${conv}/registry.c ${select} ${conv}/pointwise/plan.c)
    target_sources(test_added_ops PRIVATE $<TARGET_OBJECTS:test_added_launch>)
    target_include_directories(test_added_ops SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(test_added_ops PRIVATE CUDA::cudart_static)
    set_target_properties(test_added_ops PROPERTIES LINKER_LANGUAGE C CUDA_RESOLVE_DEVICE_SYMBOLS OFF)
    set(added_ops $<TARGET_FILE:test_added_ops>)
endif()

test_case(scripts.adding_a_kernel LABELS cpu slow
    COMMAND bash "${PROJECT_SOURCE_DIR}/tests/scripts/adding_a_kernel.sh" "${added}" $<TARGET_FILE:test_added_plan> ${added_ops})
set_tests_properties(scripts.adding_a_kernel PROPERTIES RESOURCE_LOCK build)
