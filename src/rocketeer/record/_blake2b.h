/* BLAKE2b (RFC 7693): no allocation, no Python. A key's block is hashed once; a text then costs a block for each 128
   bytes. */

#ifndef ROCKETEER_BLAKE2B_H
#define ROCKETEER_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLAKE2B_BLOCK 128
#define BLAKE2B_KEY_MAX 64

typedef struct {
    uint64_t state[8];  /* with the key's block in it */
    uint64_t before[8]; /* without */
    uint8_t key[BLAKE2B_BLOCK];
    uint64_t key_bytes; /* hashed before a text: one block or nothing */
} blake2b_key;

static const uint64_t blake2b_iv[8] = {
    0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u,
    0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u,
};

/* Rounds 10 and 11 take the words in the order of rounds 0 and 1. */
static const uint8_t blake2b_order[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t blake2b_load(const uint8_t *at) {
    uint64_t value = 0;
    int i;
    for (i = 7; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static inline uint64_t blake2b_rotate(uint64_t value, int bits) {
    return value >> bits | value << (64 - bits);
}

static inline void blake2b_mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = blake2b_rotate(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = blake2b_rotate(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = blake2b_rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = blake2b_rotate(v[b] ^ v[c], 63);
}

static inline void blake2b_block(uint64_t *state, const uint8_t *block, uint64_t bytes, int last) {
    uint64_t v[16], m[16];
    int i, round;
    for (i = 0; i < 16; i++) m[i] = blake2b_load(block + 8 * i);
    for (i = 0; i < 8; i++) {
        v[i] = state[i];
        v[i + 8] = blake2b_iv[i];
    }
    v[12] ^= bytes; /* texts here are far below 2^64 bytes */
    if (last) v[14] = ~v[14];
    for (round = 0; round < 12; round++) {
        const uint8_t *s = blake2b_order[round];
        blake2b_mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        blake2b_mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        blake2b_mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        blake2b_mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        blake2b_mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        blake2b_mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        blake2b_mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        blake2b_mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}

/* `size` is BLAKE2B_KEY_MAX at most, and 0 for none; `digest_bytes` from 1 to 64. */
static inline void blake2b_set_key(blake2b_key *key, const uint8_t *bytes, size_t size, size_t digest_bytes) {
    memcpy(key->before, blake2b_iv, sizeof blake2b_iv);
    key->before[0] ^= 0x01010000u ^ (uint64_t)size << 8 ^ (uint64_t)digest_bytes;
    key->key_bytes = size ? BLAKE2B_BLOCK : 0;
    memset(key->key, 0, BLAKE2B_BLOCK);
    memcpy(key->key, bytes, size);
    memcpy(key->state, key->before, sizeof key->before);
    if (size) blake2b_block(key->state, key->key, BLAKE2B_BLOCK, 0);
}

/* The digest is the first bytes of `state`, whose words are little-endian. */
static inline void blake2b_hash(const blake2b_key *key, const uint8_t *at, size_t size, uint64_t *state) {
    uint64_t bytes = key->key_bytes;
    uint8_t rest[BLAKE2B_BLOCK];
    if (!size) { /* the last block is the key's, or one of zeros */
        memcpy(state, key->before, sizeof key->before);
        blake2b_block(state, key->key, bytes, 1);
        return;
    }
    memcpy(state, key->state, sizeof key->state);
    for (; size > BLAKE2B_BLOCK; size -= BLAKE2B_BLOCK, at += BLAKE2B_BLOCK) {
        bytes += BLAKE2B_BLOCK;
        blake2b_block(state, at, bytes, 0);
    }
    memset(rest, 0, sizeof rest);
    memcpy(rest, at, size);
    blake2b_block(state, rest, bytes + size, 1);
}

#endif
