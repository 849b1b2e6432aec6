/* crc32c.h - the checksum of stored tensors. */
#ifndef UF_CORE_CRC32C_H
#define UF_CORE_CRC32C_H

#include <stdint.h>

/* CRC-32C (Castagnoli: polynomial 0x1EDC6F41, reflected, all ones before and inverted after; of
 * "123456789" it is 0xE3069283) of `count` values of `size` bytes each (1, 2, 4 or 8), as they lie
 * in little endian. https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4 */
uint32_t uf_crc32c(const void *values, int64_t count, int64_t size);

/* The checksum of what `crc` is the checksum of (0: nothing), and of these values behind it. */
uint32_t uf_crc32c_more(uint32_t crc, const void *values, int64_t count, int64_t size);

/* uf_crc32c as processors without an instruction for it compute it: for tests. */
uint32_t uf_crc32c_by_tables(const void *values, int64_t count, int64_t size);

#endif
