/* Arithmetic on vectors of LANES numbers, without branches, for the kernels on the CPU. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define TILE 256 /* a multiple of LANES */
#define EPS 1.1920929e-7f
#define LARGE 2e15f /* beyond, v*v / EPS is about to overflow, and 1 + v*v equals v*v */

#define INLINE static inline __attribute__((always_inline))

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Int __attribute__((vector_size(4 * LANES)));

INLINE Vec all(float x) { return x - (Vec){0}; }
INLINE Vec pick(Int where, Vec yes, Vec no) { return where ? yes : no; }

INLINE Vec at_least(Vec x, float low) { return pick(x < low, all(low), x); }   /* keeps NaN, as at_most does */
INLINE Vec at_most(Vec x, float high) { return pick(x > high, all(high), x); }
INLINE Vec size(Vec x) { return (Vec)((Int)x & 0x7fffffff); }

INLINE Vec load(const float *from) { return *(const Unaligned *)from; }
INLINE void store(float *to, Vec x) { *(Unaligned *)to = x; }

/* Lane by lane, an entry of a row of 16. */
INLINE Vec entry(const float *row, Int which) {
#if defined(__AVX512F__)
    return (Vec)_mm512_permutexvar_ps((__m512i)which, _mm512_loadu_ps(row));
#elif defined(__AVX2__)
    Vec first = (Vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(row), (__m256i)which);
    return pick(which < 8, first, (Vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(row + 8), (__m256i)which));
#else
    Vec found;
    for (int i = 0; i < LANES; i++) found[i] = row[which[i]];
    return found;
#endif
}

INLINE Vec root(Vec x) {
#if defined(__AVX512F__)
    Vec y = (Vec)_mm512_rsqrt14_ps((__m512)x), r = x * y;
    return pick(x > 0.0f, r + 0.5f * y * (x - r * r), x);
#else
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* 1 / x for x that is neither zero nor infinite: an estimate and a Newton step, in a third of a division's time. */
INLINE Vec inverse_(Vec x) {
#if defined(__AVX512F__)
    Vec y = (Vec)_mm512_rcp14_ps((__m512)x);
    return y * (2.0f - x * y);
#else
    return 1.0f / x;
#endif
}

/* log x for x > 0: the mantissa in [sqrt 1/2, sqrt 2), then a polynomial; right to a few parts in 1e8. */
INLINE Vec log_finite(Vec x) {
    Int shift = (Int)x - 0x3f3504f3;
    Vec e = __builtin_convertvector(shift >> 23, Vec);
    Vec f = (Vec)((shift & 0x007fffff) + 0x3f3504f3) - 1.0f;
    Vec p = 7.0376836292e-2f * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    Vec y = f * f * (f * p - 0.5f) + e * -2.12194440e-4f;
    return f + y + e * 0.693359375f;
}

INLINE Vec log_(Vec x) { return pick(x <= 3.4e38f, log_finite(x), x); } /* infinity and NaN stay */

/* For a number somebody gave, which may be wrong. */
INLINE Vec log_any(Vec x) { return pick(x > 0.0f, log_(x), pick(x == 0.0f, all(-INFINITY), all(NAN))); }

/* 2^n and p with e^x = 2^n (1 + p). */
INLINE Vec exp_parts(Vec x, Vec *p) {
    x = at_least(at_most(x, 89.0f), -87.0f); /* e^89 is infinite */
    Vec n = at_most(x * 1.44269504f + 12582912.0f - 12582912.0f, 127.0f); /* rounded to a whole number */
    Vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vec q = 1.9875691500e-4f * r + 1.3981999507e-3f;
    q = q * r + 8.3334519073e-3f;
    q = q * r + 4.1665795894e-2f;
    q = q * r + 1.6666665459e-1f;
    q = q * r + 5.0000001201e-1f;
    *p = q * r * r + r;
    return (Vec)((__builtin_convertvector(n, Int) + 127) << 23);
}

/* e^x - 1 for x within a quarter of zero. */
INLINE Vec expm1_small(Vec x) {
    Vec p = 1.0f / 720 * x + 1.0f / 120;
    p = p * x + 1.0f / 24;
    p = p * x + 1.0f / 6;
    p = p * x + 0.5f;
    return p * x * x + x;
}

INLINE Vec exp_(Vec x) {
    Vec p, s = exp_parts(x, &p);
    return s * p + s;
}

/* log(1 + e^x), and e^x / (1 + e^x). */
INLINE Vec softplus(Vec x, Vec *sigmoid) {
    Vec t = exp_(-size(x)), u = 1.0f + t, i = 1.0f / u;
    *sigmoid = pick(x < 0.0f, t * i, i);
    return at_least(x, 0.0f) + log_finite(u) + (t - (u - 1.0f)) * i; /* the last: what was lost in rounding u */
}
