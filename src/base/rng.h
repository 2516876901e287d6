/*
 * Seeded random numbers: splitmix64 to mix and to seed, xoshiro256** to draw (Blackman and Vigna,
 * "Scrambled linear pseudorandom number generators", 2021). Not for secrets. One generator belongs
 * to one thread; the same seed draws the same numbers on every machine.
 */
#ifndef GB_BASE_RNG_H
#define GB_BASE_RNG_H

#include <stdint.h>

__extension__ typedef unsigned __int128 gb_rng_wide;

struct gb_rng {
    uint64_t state[4];
};

/* A bijection of 64 bits in which every input bit reaches every output bit. */
static inline uint64_t gb_rng_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* splitmix64: advances *state and returns the next number. */
static inline uint64_t gb_rng_split(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return gb_rng_mix(*state);
}

static inline void gb_rng_init(struct gb_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        rng->state[i] = gb_rng_split(&seed);
    }
}

static inline uint64_t gb_rng_rotate(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static inline uint64_t gb_rng_next(struct gb_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = gb_rng_rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = gb_rng_rotate(s[3], 45);
    return result;
}

/* Uniform in [0, bound); bound is not 0. The bias, below bound / 2^64, is left in. */
static inline uint64_t gb_rng_below(struct gb_rng *rng, uint64_t bound)
{
    return (uint64_t)(((gb_rng_wide)gb_rng_next(rng) * bound) >> 64);
}

/* Uniform in [0, 1). */
static inline double gb_rng_unit(struct gb_rng *rng)
{
    return (double)(gb_rng_next(rng) >> 11) * 0x1.0p-53;
}

#endif
