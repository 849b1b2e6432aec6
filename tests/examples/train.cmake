# The trainer: examples/common/train.h and what it is made of.

add_executable(tiny_train tiny_train.c)
target_link_libraries(tiny_train PRIVATE example_common)
unfurl_compile(tiny_train)

# train_script(<name> [<label>...]): tests/examples/<name>.sh
function(train_script name)
    test_case(examples.${name} LABELS cpu ${ARGN}
        COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/${name}.sh"
        ENVIRONMENT
            "TRAIN=$<TARGET_FILE:tiny_train>"
            "SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()
train_script(train io)

add_executable(test_common test_common.c)
target_compile_definitions(test_common PRIVATE _XOPEN_SOURCE=700) # posix_openpt
target_link_libraries(test_common PRIVATE example_common PkgConfig::CMOCKA)
unfurl_compile(test_common)
test_case(examples.common LABELS cpu io COMMAND test_common)
