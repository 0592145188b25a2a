/* Arithmetic on vectors of LANES numbers, without branches, for the kernels on the CPU. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
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

#define ALWAYS inline __attribute__((always_inline))
#define INLINE static ALWAYS

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float Aligned __attribute__((vector_size(4 * LANES), may_alias));
typedef int32_t Int __attribute__((vector_size(4 * LANES)));

INLINE Vec all(float x) { return x - (Vec){0}; }
INLINE Vec pick(Int where, Vec yes, Vec no) { return where ? yes : no; }

/* Both keep NaN. */
#if defined(__aarch64__)
INLINE Vec at_least(Vec x, float low) { return (Vec)vmaxq_f32((float32x4_t)x, vdupq_n_f32(low)); }
INLINE Vec at_most(Vec x, float high) { return (Vec)vminq_f32((float32x4_t)x, vdupq_n_f32(high)); }
#else
INLINE Vec at_least(Vec x, float low) { return pick(x < low, all(low), x); }
INLINE Vec at_most(Vec x, float high) { return pick(x > high, all(high), x); }
#endif
INLINE Vec size(Vec x) { return (Vec)((Int)x & 0x7fffffff); }

INLINE Vec load(const float *from) { return *(const Unaligned *)from; }
INLINE void store(float *to, Vec x) { *(Unaligned *)to = x; }

/* Lane by lane, an entry of a row of 16; any where the place, of a number that is NaN, is none of the row. */
INLINE Vec entry(const float *row, Int which) {
#if defined(__AVX512F__)
    return (Vec)_mm512_permutexvar_ps((__m512i)which, _mm512_loadu_ps(row));
#elif defined(__AVX2__)
    Vec first = (Vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(row), (__m256i)which);
    return pick(which < 8, first, (Vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(row + 8), (__m256i)which));
#elif defined(__aarch64__)
    Int bytes = which * 0x04040404 + 0x03020100; /* of each number */
    Vec found; /* in assembler, because compilers copy the four registers, or the tables, to the stack and back */
    __asm__("ld1 {v16.16b-v19.16b}, [%1]\n\ttbl %0.16b, {v16.16b-v19.16b}, %2.16b"
            : "=w"(found) : "r"(row), "w"(bytes), "m"(*(const float(*)[16])row) : "v16", "v17", "v18", "v19");
    return found;
#else
    Vec found;
    for (int i = 0; i < LANES; i++) found[i] = row[which[i] & 15];
    return found;
#endif
}

INLINE Vec root(Vec x) {
#if defined(__AVX512F__)
    Vec y = (Vec)_mm512_rsqrt14_ps((__m512)x), r = x * y;
    return pick(x > 0.0f, r + 0.5f * y * (x - r * r), x);
#elif defined(__aarch64__)
    return (Vec)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* 1 / x for x that is neither zero nor infinite: an estimate and a Newton step, in a third of a division's time. NEON's
 * estimate has eight bits; two steps take as long as its division. */
INLINE Vec inverse_(Vec x) {
#if defined(__AVX512F__)
    Vec y = (Vec)_mm512_rcp14_ps((__m512)x);
    return y * (2.0f - x * y);
#else
    return 1.0f / x;
#endif
}

/* The coefficients of a polynomial, the highest power first, each as a whole vector. */
template <int N> struct Series {
    alignas(4 * LANES) float terms[N][LANES];

    template <class... Each> constexpr explicit Series(Each... each) : terms{} {
        const float given[] = {(float)each...};
        for (int k = 0; k < N; k++)
            for (int lane = 0; lane < LANES; lane++) terms[k][lane] = given[k];
    }

    /* NEON adds a product to a register that it writes over: a term comes from memory each time (so volatile), for a
     * copy of one that is kept in a register takes as long as the step itself. */
    ALWAYS Vec term(int k) const {
#if defined(__aarch64__)
        return (Vec)*(const volatile Aligned *)terms[k];
#else
        return all(terms[k][0]);
#endif
    }

    ALWAYS Vec operator()(Vec x) const {
        Vec sum = term(0);
#pragma GCC unroll 16
        for (int k = 1; k < N; k++) sum = sum * x + term(k);
        return sum;
    }
};
template <class... Each> Series(Each...) -> Series<sizeof...(Each)>;

/* log x for x > 0: the mantissa in [sqrt 1/2, sqrt 2), then a polynomial; right to a few parts in 1e8. */
INLINE Vec log_finite(Vec x) {
    Int shift = (Int)x - 0x3f3504f3;
    Vec e = __builtin_convertvector(shift >> 23, Vec);
    Vec f = (Vec)((shift & 0x007fffff) + 0x3f3504f3) - 1.0f;
    static constexpr Series terms(7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                                  1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f,
                                  3.3333331174e-1f);
    Vec p = terms(f);
    Vec y = f * f * (f * p - 0.5f) + e * -2.12194440e-4f;
    return f + y + e * 0.693359375f;
}

INLINE Vec log_(Vec x) { return pick(x <= 3.4e38f, log_finite(x), x); } /* infinity and NaN stay */

/* For a number somebody gave, which may be wrong. */
INLINE Vec log_any(Vec x) { return pick(x > 0.0f, log_(x), pick(x == 0.0f, all(-INFINITY), all(NAN))); }

/* 2^n and p with e^x = 2^n (1 + p). */
INLINE Vec exp_parts(Vec x, Vec *p) {
    x = at_least(at_most(x, 89.0f), -87.0f); /* e^89 is infinite */
    Vec far = at_most(x * 1.44269504f + 12582912.0f, 12583039.0f), n = far - 12582912.0f; /* n is whole, at most 127 */
    Vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    static constexpr Series terms(1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                  1.6666665459e-1f, 5.0000001201e-1f);
    *p = terms(r) * r * r + r;
    return (Vec)(((Int)far << 23) + (127 << 23)); /* the last bits of `far` are n */
}

/* e^x - 1 for x within a quarter of zero. */
INLINE Vec expm1_small(Vec x) {
    static constexpr Series terms(1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f);
    return terms(x) * x * x + x;
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
