# What examples/vae, examples/pix2pix and examples/superres consist of. Included by tests/CMakeLists.txt.

# example_test(<name> <source of examples/>...): examples/test_<name>.c as test examples.<name>
function(example_test name)
    list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/examples/")
    test_program(test_${name} examples/test_${name}.c ${ARGN})
    target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/examples")
    test_case(examples.${name} LABELS cpu COMMAND test_${name})
endfunction()

example_test(bicubic superres/bicubic.c common/common.c)
example_test(scene pix2pix/scene.c common/common.c)
