/* HMAC-SHA1 (FIPS 180-4, RFC 2104) for signatures of requests: no allocation, no Python. A key's two padded blocks are
   hashed once; a signature then costs its content and two blocks. The processor's own instructions do the work where
   it has them, which is three times as fast. */

#ifndef ROCKETEER_HMAC_SHA1_H
#define ROCKETEER_HMAC_SHA1_H

#include <stdint.h>
#include <string.h>

#define SHA1_BLOCK 64
#define SHA1_DIGEST 20

typedef struct {
    uint32_t state[5];
    uint64_t size;
    int plain; /* do not use the processor's own instructions */
    uint8_t rest[SHA1_BLOCK];
} sha1_hash;

typedef struct {
    uint32_t inner[5];
    uint32_t outer[5];
} hmac_sha1_key;

static inline uint32_t sha1_load(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void sha1_store(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline uint32_t sha1_rotate(uint32_t value, int bits) {
    return value << bits | value >> (32 - bits);
}

static void sha1_blocks_plain(uint32_t *state, const uint8_t *at, size_t blocks) {
    uint32_t w[80];
    for (; blocks; blocks--, at += SHA1_BLOCK) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], mix, next;
        int t;
        for (t = 0; t < 16; t++) w[t] = sha1_load(at + 4 * t);
        for (; t < 80; t++) w[t] = sha1_rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
        for (t = 0; t < 80; t++) {
            if (t < 20) mix = ((b & c) | (~b & d)) + 0x5A827999u;
            else if (t < 40) mix = (b ^ c ^ d) + 0x6ED9EBA1u;
            else if (t < 60) mix = ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDCu;
            else mix = (b ^ c ^ d) + 0xCA62C1D6u;
            next = sha1_rotate(a, 5) + mix + e + w[t];
            e = d;
            d = c;
            c = sha1_rotate(b, 30);
            b = a;
            a = next;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

/* Four rounds with the words `m`; `e` is what A was four rounds before. The words of four groups later are made beside
   them: they do not depend on the rounds, so both go on at once. */
#define SHA1_FOUR(m, kind)                               \
    do {                                                 \
        const __m128i before = abcd;                     \
        e = _mm_sha1nexte_epu32(e, m);                   \
        abcd = _mm_sha1rnds4_epu32(abcd, e, kind);       \
        e = before;                                      \
    } while (0)
#define SHA1_NEXT(w0, w1, w2, w3) \
    w0 = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2), w3)
#define SHA1_SIXTEEN(k0, k1, k2, k3)                            \
    do {                                                        \
        SHA1_FOUR(w0, k0); SHA1_NEXT(w0, w1, w2, w3);           \
        SHA1_FOUR(w1, k1); SHA1_NEXT(w1, w2, w3, w0);           \
        SHA1_FOUR(w2, k2); SHA1_NEXT(w2, w3, w0, w1);           \
        SHA1_FOUR(w3, k3); SHA1_NEXT(w3, w0, w1, w2);           \
    } while (0)

__attribute__((target("sha,ssse3,sse4.1")))
static void sha1_blocks_native(uint32_t *state, const uint8_t *at, size_t blocks) {
    const __m128i turn = _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL);
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0x1B);
    __m128i first = _mm_set_epi32((int)state[4], 0, 0, 0);
    for (; blocks; blocks--, at += SHA1_BLOCK) {
        const __m128i abcd_saved = abcd, first_saved = first;
        const __m128i *words = (const __m128i *)at;
        __m128i w0 = _mm_shuffle_epi8(_mm_loadu_si128(words), turn);
        __m128i w1 = _mm_shuffle_epi8(_mm_loadu_si128(words + 1), turn);
        __m128i w2 = _mm_shuffle_epi8(_mm_loadu_si128(words + 2), turn);
        __m128i w3 = _mm_shuffle_epi8(_mm_loadu_si128(words + 3), turn);
        __m128i e = _mm_add_epi32(first, w0); /* of the first four E itself is known */
        __m128i before = abcd;
        abcd = _mm_sha1rnds4_epu32(abcd, e, 0);
        e = before;
        SHA1_NEXT(w0, w1, w2, w3);
        SHA1_FOUR(w1, 0); SHA1_NEXT(w1, w2, w3, w0);
        SHA1_FOUR(w2, 0); SHA1_NEXT(w2, w3, w0, w1);
        SHA1_FOUR(w3, 0); SHA1_NEXT(w3, w0, w1, w2);
        SHA1_SIXTEEN(0, 1, 1, 1);
        SHA1_SIXTEEN(1, 1, 2, 2);
        SHA1_SIXTEEN(2, 2, 2, 3);
        SHA1_FOUR(w0, 3);
        SHA1_FOUR(w1, 3);
        SHA1_FOUR(w2, 3);
        SHA1_FOUR(w3, 3);
        first = _mm_sha1nexte_epu32(e, first_saved);
        abcd = _mm_add_epi32(abcd, abcd_saved);
    }
    _mm_storeu_si128((__m128i *)state, _mm_shuffle_epi32(abcd, 0x1B));
    state[4] = (uint32_t)_mm_extract_epi32(first, 3);
}

static int sha1_is_native(void) {
    static int known = -1;
    if (known < 0) {
        unsigned a, b = 0, c = 0, d;
        int sse = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1);
        known = sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
    }
    return known;
}
#else
static int sha1_is_native(void) { return 0; }
#define sha1_blocks_native sha1_blocks_plain
#endif

static inline void sha1_blocks(sha1_hash *hash, const uint8_t *at, size_t blocks) {
    if (!hash->plain && sha1_is_native()) sha1_blocks_native(hash->state, at, blocks);
    else sha1_blocks_plain(hash->state, at, blocks);
}

static inline void sha1_begin(sha1_hash *hash) {
    static const uint32_t start[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    memcpy(hash->state, start, sizeof start);
    hash->size = 0;
    hash->plain = 0;
}

static void sha1_add(sha1_hash *hash, const uint8_t *at, size_t size) {
    size_t kept = hash->size % SHA1_BLOCK;
    hash->size += size;
    if (kept) {
        size_t taken = SHA1_BLOCK - kept < size ? SHA1_BLOCK - kept : size;
        memcpy(hash->rest + kept, at, taken);
        at += taken;
        size -= taken;
        if (kept + taken < SHA1_BLOCK) return;
        sha1_blocks(hash, hash->rest, 1);
    }
    if (size >= SHA1_BLOCK) sha1_blocks(hash, at, size / SHA1_BLOCK);
    memcpy(hash->rest, at + size - size % SHA1_BLOCK, size % SHA1_BLOCK);
}

static void sha1_end(sha1_hash *hash, uint8_t *digest) {
    size_t kept = hash->size % SHA1_BLOCK;
    uint64_t bits = hash->size * 8;
    int i;
    hash->rest[kept++] = 0x80;
    if (kept > SHA1_BLOCK - 8) {
        memset(hash->rest + kept, 0, SHA1_BLOCK - kept);
        sha1_blocks(hash, hash->rest, 1);
        kept = 0;
    }
    memset(hash->rest + kept, 0, SHA1_BLOCK - 8 - kept);
    sha1_store(hash->rest + 56, (uint32_t)(bits >> 32));
    sha1_store(hash->rest + 60, (uint32_t)bits);
    sha1_blocks(hash, hash->rest, 1);
    for (i = 0; i < 5; i++) sha1_store(digest + 4 * i, hash->state[i]);
}

static void hmac_sha1_pad(uint32_t *state, const uint8_t *secret, uint8_t pad) {
    uint8_t block[SHA1_BLOCK];
    sha1_hash hash;
    int i;
    for (i = 0; i < SHA1_BLOCK; i++) block[i] = secret[i] ^ pad;
    sha1_begin(&hash);
    sha1_add(&hash, block, SHA1_BLOCK);
    memcpy(state, hash.state, sizeof hash.state);
}

static void hmac_sha1_key_of(hmac_sha1_key *key, const uint8_t *secret, size_t size) {
    uint8_t block[SHA1_BLOCK] = {0};
    if (size > SHA1_BLOCK) {
        sha1_hash hash;
        sha1_begin(&hash);
        sha1_add(&hash, secret, size);
        sha1_end(&hash, block);
    } else {
        memcpy(block, secret, size);
    }
    hmac_sha1_pad(key->inner, block, 0x36);
    hmac_sha1_pad(key->outer, block, 0x5C);
}

static inline void hmac_sha1_begin(sha1_hash *hash, const hmac_sha1_key *key) {
    memcpy(hash->state, key->inner, sizeof hash->state);
    hash->size = SHA1_BLOCK;
    hash->plain = 0;
}

static void hmac_sha1_end(sha1_hash *hash, const hmac_sha1_key *key, uint8_t *digest) {
    sha1_end(hash, digest);
    memcpy(hash->state, key->outer, sizeof hash->state);
    hash->size = SHA1_BLOCK;
    sha1_add(hash, digest, SHA1_DIGEST);
    sha1_end(hash, digest);
}

#endif
