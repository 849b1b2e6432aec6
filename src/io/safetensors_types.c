/* safetensors_types.c - the types of elements that a safetensors file can have. */
#include "io/safetensors.h"

const uf_safetensors_type uf_safetensors_types[] = {
    {"U64", "u64", 8, UF_I64, NULL},
    {"I64", "i64", 8, UF_I64, NULL},
    {"F64", "f64", 8, UF_F64, NULL},
    {"C64", "c64", 8, UF_F64, "complex numbers"},
    {"F32", "f32", 4, UF_F32, NULL},
    {"U32", "u32", 4, UF_I64, NULL},
    {"I32", "i32", 4, UF_I64, NULL},
    {"BF16", "bf16", 2, UF_BF16, NULL},
    {"F16", "f16", 2, UF_F16, NULL},
    {"U16", "u16", 2, UF_I64, NULL},
    {"I16", "i16", 2, UF_I64, NULL},
    {"F8_E8M0", "f8_e8m0", 1, UF_F16, "8-bit floats"},
    {"F8_E4M3", "f8_e4m3", 1, UF_F16, "8-bit floats"},
    {"F8_E5M2", "f8_e5m2", 1, UF_F16, "8-bit floats"},
    {"I8", "i8", 1, UF_I64, NULL},
    {"U8", "u8", 1, UF_I64, NULL},
    {"BOOL", "bool", 1, UF_I64, "truth values"},
    {NULL, NULL, 0, UF_F32, NULL},
};
