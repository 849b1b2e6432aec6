# Pictures for a training: examples/common/data.h and what it is made of.

# The test's support has the library within itself: of example_common it takes the objects alone.
add_library(data_fixture STATIC data_fixture.c $<TARGET_OBJECTS:example_common>)
target_include_directories(data_fixture PUBLIC "${PROJECT_SOURCE_DIR}/examples")
target_compile_definitions(data_fixture PUBLIC
    $<TARGET_PROPERTY:example_common,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(data_fixture PUBLIC io_fixture ZLIB::ZLIB)
if(UNFURL_TURBOJPEG)
    target_include_directories(data_fixture PRIVATE "${UNFURL_TURBOJPEG_INCLUDE}")
    target_link_libraries(data_fixture PUBLIC "${UNFURL_TURBOJPEG}")
endif()
unfurl_compile(data_fixture)

foreach(name IN ITEMS resample data data_threads data_wrong)
    add_executable(test_${name} test_${name}.c)
    target_link_libraries(test_${name} PRIVATE data_fixture)
    unfurl_compile(test_${name})
    test_case(examples.${name} LABELS cpu io COMMAND test_${name})
endforeach()

test_case(examples.data_bench LABELS cpu io slow # it takes a second and a half for each number of threads
    COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/data_bench.sh"
    ENVIRONMENT "BENCH=$<TARGET_FILE:data_bench>" "SOURCE=${PROJECT_SOURCE_DIR}")

add_executable(knn_fixture knn_fixture.c)
target_link_libraries(knn_fixture PRIVATE example_common ZLIB::ZLIB)
unfurl_compile(knn_fixture)
test_case(examples.dcgan_knn LABELS cpu io COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/dcgan_knn.sh"
    ENVIRONMENT "KNN=$<TARGET_FILE:dcgan_knn>" "FIXTURE=$<TARGET_FILE:knn_fixture>" "SOURCE=${PROJECT_SOURCE_DIR}")
