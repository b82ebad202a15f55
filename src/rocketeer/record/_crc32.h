/* CRC-32 (the polynomial of zlib and of RocketMQ's records) for the compiled modules.
 *
 * Carry-less multiplication where the processor has it (64 bytes a step), eight table lookups a step elsewhere;
 * both are tested against isal's. The folding constants are x^n mod P for the distances named beside them,
 * bit-reflected.
 */
#ifndef ROCKETEER_CRC32_H
#define ROCKETEER_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc_tables[8][256];
static int crc_ready = 0;

static void crc_prepare(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (0xEDB88320u & (0u - (c & 1)));
    crc_tables[0][n] = c;
  }
  for (uint32_t n = 0; n < 256; n++)
    for (int t = 1; t < 8; t++)
      crc_tables[t][n] = (crc_tables[t - 1][n] >> 8) ^ crc_tables[0][crc_tables[t - 1][n] & 0xFF];
  crc_ready = 1;
}

/* The register goes in and out as it is: the caller inverts it. */
static uint32_t crc_by_tables(uint32_t c, const uint8_t *at, size_t left) {
  while (left >= 8) {
    uint32_t low = c ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
    c = crc_tables[7][low & 0xFF] ^ crc_tables[6][(low >> 8) & 0xFF] ^ crc_tables[5][(low >> 16) & 0xFF] ^
        crc_tables[4][low >> 24] ^ crc_tables[3][at[4]] ^ crc_tables[2][at[5]] ^ crc_tables[1][at[6]] ^
        crc_tables[0][at[7]];
    at += 8;
    left -= 8;
  }
  while (left--) c = (c >> 8) ^ crc_tables[0][(c ^ *at++) & 0xFF];
  return c;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC_HAS_FOLDING 1
#include <immintrin.h>

#define FOLD(acc, k, next)                                                                  \
  _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(acc, k, 0x00), _mm_clmulepi64_si128(acc, k, 0x11)), next)

/* At least 64 bytes. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_by_folding(uint32_t c, const uint8_t *at, size_t left) {
  const __m128i by64 = _mm_set_epi64x(0x00000001c6e41596LL, 0x0000000154442bd4LL); /* 512 bits ahead */
  const __m128i by16 = _mm_set_epi64x(0x00000000ccaa009eLL, 0x00000001751997d0LL); /* 128 bits ahead */
  __m128i a0 = _mm_loadu_si128((const __m128i *)at);
  __m128i a1 = _mm_loadu_si128((const __m128i *)(at + 16));
  __m128i a2 = _mm_loadu_si128((const __m128i *)(at + 32));
  __m128i a3 = _mm_loadu_si128((const __m128i *)(at + 48));
  uint8_t rest[16];
  a0 = _mm_xor_si128(a0, _mm_cvtsi32_si128((int)c));
  at += 64;
  left -= 64;
  while (left >= 64) {
    a0 = FOLD(a0, by64, _mm_loadu_si128((const __m128i *)at));
    a1 = FOLD(a1, by64, _mm_loadu_si128((const __m128i *)(at + 16)));
    a2 = FOLD(a2, by64, _mm_loadu_si128((const __m128i *)(at + 32)));
    a3 = FOLD(a3, by64, _mm_loadu_si128((const __m128i *)(at + 48)));
    at += 64;
    left -= 64;
  }
  a1 = FOLD(a0, by16, a1);
  a2 = FOLD(a1, by16, a2);
  a3 = FOLD(a2, by16, a3);
  while (left >= 16) {
    a3 = FOLD(a3, by16, _mm_loadu_si128((const __m128i *)at));
    at += 16;
    left -= 16;
  }
  /* What is folded stands for the bytes before: their crc with an empty register is that of 16 bytes. */
  _mm_storeu_si128((__m128i *)rest, a3);
  return crc_by_tables(crc_by_tables(0, rest, 16), at, left);
}
#endif

static uint32_t crc32_of(const char *data, size_t size) {
  const uint8_t *at = (const uint8_t *)data;
  if (!crc_ready) crc_prepare();
#ifdef CRC_HAS_FOLDING
  static int folds = -1;
  if (folds < 0) folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (folds && size >= 64) return ~crc_by_folding(0xFFFFFFFFu, at, size);
#endif
  return ~crc_by_tables(0xFFFFFFFFu, at, size);
}

#endif
