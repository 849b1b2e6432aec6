# What examples/vae, examples/pix2pix and examples/superres consist of, and the programs on tiny sizes.

# example_test(<name> <source of examples/>...): examples/test_<name>.c as test examples.<name>
function(example_test name)
    list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/examples/")
    test_program(test_${name} test_${name}.c ${ARGN})
    target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/examples")
    test_case(examples.${name} LABELS cpu COMMAND test_${name})
endfunction()

example_test(bicubic superres/bicubic.c common/common.c)
example_test(scene pix2pix/scene.c common/common.c)

# A comparison with PyTorch. Debian's Python is where python3-torch and python3-h5py are.
find_program(DEBIAN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(DEBIAN_PYTHON)
    test_case(examples.vae_torch LABELS cpu io slow COMMAND ${DEBIAN_PYTHON} "${CMAKE_CURRENT_SOURCE_DIR}/vae_torch.py"
        $<TARGET_FILE:vae_train> --limit 0.001 --threads 1)
    if(UNFURL_BUILD_TOOLS)
        # Of the 2,000 steps of the question itself, on a GPU, a CPU's test has as many as take some seconds.
        set(bf16_pictures ${DEBIAN_PYTHON} "${CMAKE_CURRENT_SOURCE_DIR}/bf16_pictures.py" $<TARGET_FILE:dcgan_train>
            "${PROJECT_BINARY_DIR}/bin/unfurl")
        test_case(examples.bf16_pictures LABELS cpu slow COMMAND ${bf16_pictures} --device cpu --steps 150 --features 8
            --pictures 512)
        if(UNFURL_CUDA)
            test_case(examples.cuda.bf16_pictures LABELS cuda slow COMMAND ${bf16_pictures})
        endif()
    endif()
endif()

# memory_test(<program> <options of a tiny training>): its memory over 1,000 steps
function(memory_test program options)
    test_case(examples.${program}_memory LABELS cpu slow COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/flat.sh"
        ENVIRONMENT
            "TRAIN=$<TARGET_FILE:${program}>"
            "FIXTURE=$<TARGET_FILE:training_fixture>"
            "OPTIONS=${options} --threads 1 --device cpu"
            "SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()
# What an instrumented program needs of memory is not what it measures.
if(NOT UNFURL_SANITIZE)
    memory_test(dcgan_train "--data idx --image-size 16 --features 4 --latent 8 --batch 8 --ema 0.9 --schedule cosine")
    memory_test(pix2pix_train "--image-size 32 --features 2 --patch-layers 1 --batch 2")
    memory_test(superres_train "--data ${PROJECT_SOURCE_DIR}/docs/images --crop 16 --test-crop 48 --features 4 --batch 2")
    memory_test(vae_train "--data idx --image-size 8 --features 4 --latent 4 --batch 8")
endif()

if(UNFURL_BUILD_TOOLS)
    foreach(program IN ITEMS pix2pix_train superres_train vae_train)
        train_script(${program} ${program} io)
    endforeach()
endif()
