# The trainer: examples/common/train.h and what it is made of.

add_executable(tiny_train tiny_train.c)
target_link_libraries(tiny_train PRIVATE example_common)
unfurl_compile(tiny_train)

# train_script(<script> <program> [<label>...]): tests/examples/<script>.sh
function(train_script script program)
    test_case(examples.${script} LABELS cpu ${ARGN}
        COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/${script}.sh"
        ENVIRONMENT
            "TRAIN=$<TARGET_FILE:${program}>"
            "FIXTURE=$<TARGET_FILE:training_fixture>"
            "UNFURL=${PROJECT_BINARY_DIR}/bin/unfurl"
            "SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()
train_script(train tiny_train io)
if(UNFURL_BUILD_TOOLS)
    train_script(dcgan_train dcgan_train io)
endif()

add_executable(test_common test_common.c)
target_compile_definitions(test_common PRIVATE _XOPEN_SOURCE=700) # posix_openpt
target_link_libraries(test_common PRIVATE example_common PkgConfig::CMOCKA)
unfurl_compile(test_common)
test_case(examples.common LABELS cpu io COMMAND test_common)
