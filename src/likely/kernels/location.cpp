/* Normal, Laplace, Student's t and robust likelihoods on the CPU: loss and gradients in one pass over the data.
 *
 * All four are l = psi(z, shape) + log Z(shape) + log(scale) with z = (target - prediction) / scale, so that
 * dl/dprediction = -psi'(z) / scale and dl/dscale = (1 - z psi'(z)) / scale. The formulas, those of
 * likely/functional.py, likely/_rho.py and likely/_partition.py, are written on vectors of LANES numbers without
 * branches. One element takes hundreds of steps, each waiting for the last; so the work goes in tiles that stay in the
 * first-level cache, in several short loops over a tile, in which the processor has many vectors in flight.
 */
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
#define TILE 256    /* a multiple of LANES */
#define TERMS 10    /* of Q on a quarter of a piece */
#define EPS 1.1920929e-7f
#define LARGE 2e15f /* beyond, v*v / EPS is about to overflow, and 1 + v*v equals v*v */

#define INLINE static inline __attribute__((always_inline))

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Int __attribute__((vector_size(4 * LANES)));

enum { NORMAL, LAPLACE, STUDENT_T, ROBUST };

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

struct Psi { Vec value, slope, shape_slope; }; /* psi, dpsi/dz, dpsi/dshape */
struct Normaliser { Vec value, slope, log_b, b, inverse_b; }; /* log Z, its slope, and the b of log(1 + z*z / b) */

INLINE Psi normal(Vec z) { return {0.5f * z * z, z, all(0.0f)}; }

INLINE Psi laplace(Vec z) {
    Vec sign = (Vec)(((Int)z & (int32_t)0x80000000) | (Int)all(1.0f));
    return {size(z), pick(size(z) > 0.0f, sign, z), all(0.0f)};
}

/* log(1 + z*z / b) for any z. */
INLINE Vec log_tail(Vec z, const Normaliser &of) {
    Int large = size(z) > LARGE;
    Vec q = z * z * of.inverse_b, u = 1.0f + q, log = log_(pick(large, size(z), u));
    Vec lost = pick(q < 1.0f, q - (u - 1.0f), all(0.0f)); /* in rounding u, over u; where u is larger it is nothing */
    return pick(large, 2.0f * log - of.log_b, log + lost);
}

/* -log of Gamma(x + 1/2) / (Gamma(x) sqrt(x)) at x = df / 2: its series from 4 on, reached by the recurrence. */
INLINE Normaliser student_t_normaliser(Vec df) {
    Vec x = 0.5f * df;
    Int low = x < 4.0f;
    Vec y = pick(low, x + 4.0f, x), i = 1.0f / y, s = i * i;
    Vec series = i * (-0.125f + s * (1.0f / 192 + s * (-1.0f / 640 + s * (17.0f / 14336))));
    Vec slope = s * (0.125f + s * (-1.0f / 64 + s * (1.0f / 128 - s * (17.0f / 2048))));
    Vec product = y / x, sum = -2.0f / (x * y); /* of 1/2y - 1/2x */
    for (int j = 0; j < 4; j++) {
        Vec top = x + (float)j, inverse = 1.0f / (top * (top + 0.5f)), step = top * top * inverse;
        product *= step * step;
        sum += 0.5f * inverse;
    }
    slope += pick(low, sum, all(0.0f));
    Vec value = -series - 0.5f * log_(pick(low, product, all(1.0f)));
    return {pick(df > 0.0f, value, all(NAN)), -0.5f * slope, log_(df), df, inverse_(df)};
}

/* With the share z*z / (df + z*z) and the pull z df / (df + z*z), of log = log(1 + z*z / df). */
INLINE Psi student_t(Vec z, Vec log, const Normaliser &of) {
    Int large = size(z) > LARGE;
    Vec z2 = z * z, i = inverse_(pick(large, z, of.b + z2)), more = 1.0f + of.inverse_b;
    Vec share = pick(large, all(1.0f), z2 * i), pull = of.b * i * pick(large, all(1.0f), z);
    return {0.5f * (of.b + 1.0f) * log, more * pull, 0.5f * (log - more * share)};
}

INLINE Vec bounded(Vec z) { return at_least(at_most(z, 4.6e34f), -4.6e34f); } /* below, 1 / h is a normal number */

INLINE Vec distance_from_two(Vec alpha) { return at_least(size(at_most(alpha, 7e13f) - 2.0f), EPS); }

/* Outside its own piece of alpha a case may be anything: it is not picked. */
INLINE Normaliser robust_normaliser(Vec alpha, const float *Q, const float *R) {
    Vec b = distance_from_two(alpha), log_b = log_finite(b), i = inverse_(alpha);
    Int low = alpha < 1.0f, above = alpha > 2.0f, high = alpha >= 3.0f, piece = 1 + low - above - high;
    Vec positive = at_least(alpha, 1e-37f), t = pick(high, 3.0f * i, root(pick(low, positive, b)));
    Vec quarter = at_most(4.0f * t - 0.5f + 12582912.0f - 12582912.0f, 3.0f), x = 8.0f * t - 2.0f * quarter - 1.0f;
    Int part = 4 * piece + __builtin_convertvector(quarter, Int);
    Vec q = entry(Q + 16 * (TERMS - 1), part), dq = all(0.0f);
    for (int k = TERMS - 2; k >= 0; k--) {
        dq = dq * x + q;
        q = q * x + entry(Q + 16 * k, part);
    }
    Vec dt = 4.0f * t * dq; /* t dQ/dt / 2 */
    Vec r0 = entry(R, part), r1 = entry(R + 16, part), r2 = entry(R + 32, part);
    Vec r = r0 + b * (r1 + b * r2), dr = r1 + 2.0f * b * r2;

    /* b^(2 / alpha - 1) - 1, whose logarithm is -bend and within a quarter of zero. */
    Vec signed_b = pick(above, b, -b), bend = signed_b * log_b * i, growth = expm1_small(-bend), u = b * growth;
    Vec du = growth - (growth + 1.0f) * i * (signed_b + 2.0f * bend), chain = q + dt;
    /* At alpha = 2 the slope is taken one rounding step away, the value is the constant itself. */
    Vec near = 0.918938533f + pick(alpha == 2.0f, all(0.0f), 0.5f * bend + b * q + u * r);
    Vec rest = chain + du * r + u * dr;
    Vec near_slope = 0.5f * i * (log_b + 1.0f - bend) + pick(above, rest, -rest);
    Vec value = pick(low, 1.4913034f + positive * q, pick(high, q, near));
    Vec slope = pick(low, chain, pick(high, t * dt * (-2.0f / 3), near_slope));
    return {pick(alpha < 0.0f, all(INFINITY), value), pick(alpha < 0.0f, all(0.0f), slope), log_b, b, inverse_(b)};
}

/* (e^x - 1) / x and its derivative, given e^x. */
INLINE Vec exprel(Vec x, Vec e, Vec *slope) {
    Int small = size(x) < 0.25f;
    Vec n = pick(small, x, all(0.0f)), inverse = inverse_(pick(small, all(1.0f), x)), far = (e - 1.0f) * inverse;
    Vec v = 1.0f / 5040 * n + 1.0f / 720;
    v = v * n + 1.0f / 120;
    v = v * n + 1.0f / 24;
    v = v * n + 1.0f / 6;
    v = v * n + 0.5f;
    v = v * n + 1.0f;
    Vec s = 1.0f / 5760 * n + 1.0f / 840;
    s = s * n + 1.0f / 144;
    s = s * n + 1.0f / 30;
    s = s * n + 1.0f / 8;
    s = s * n + 1.0f / 3;
    s = s * n + 0.5f;
    *slope = pick(small, s, (e - far) * inverse);
    return pick(small, v, far);
}

/* rho(z, alpha), with h = sqrt(1 + z*z / b) and L = 2 log h. One exponential, half = h^((alpha - 2) / 2), serves all of it:
 * (z half)^2 overflows only where rho does, and from half - 1 comes h^(alpha - 2) - 1 without cancellation. */
INLINE Psi robust(Vec z, Vec L, Vec alpha, const Normaliser &of) {
    Vec a = at_most(alpha, 7e13f), b = of.b, i = inverse_(a), x = 0.5f * a * L, p, s = exp_parts(0.5f * (x - L), &p);
    Vec half = s * p + s, half_less_1 = s * p + (s - 1.0f), shrink = half_less_1 * (half_less_1 + 2.0f);
    Vec w = half * half, zw = z * half, zzw = zw * zw, power = w + zzw * of.inverse_b; /* h^(alpha - 2), h^alpha */
    Vec rel_slope, rel = exprel(x, power, &rel_slope), turned = pick(a > 2.0f, shrink, -shrink);
    Vec above = (zzw + b * shrink) * i, below = 0.5f * b * L * rel;
    Vec above_slope = i * (0.5f * (w * b * L + zzw * (L - 2.0f * i - 1.0f)) + 2.0f * turned * i);
    Vec below_slope = 0.5f * (L * L * rel_slope - power * L + zzw * of.inverse_b);
    Int high = a >= 1.0f;
    above_slope = pick(power < 3e38f, above_slope, power); /* not the difference of two infinities */
    return {pick(high, above, below), zw * half, pick(high, above_slope, below_slope)};
}

/* A parameter is one number (step 0) or one an element (step 1). What is null is not written; the sums are of the loss
 * and of the slopes of parameters that are one number. `upstream` holds a factor for each element, or is null. */
struct Job {
    const float *prediction, *target, *scale, *shape, *upstream;
    float *each, *d_prediction, *d_scale, *d_shape;
    int64_t scale_step, shape_step;
    float factor, constant;
};

template <int kind> INLINE Normaliser normaliser(Vec shape, const float *Q, const float *R) {
    if (kind == STUDENT_T) return student_t_normaliser(shape);
    if (kind == ROBUST) return robust_normaliser(shape, Q, R);
    Vec none = all(0.0f);
    return {none, none, none, none, none};
}

/* n is a multiple of LANES. */
template <int kind> static void run(int64_t n, const Job &job, const float *Q, const float *R, double *totals) {
    Vec z[TILE / LANES], inverse[TILE / LANES], logs[TILE / LANES], tails[TILE / LANES];
    Normaliser own[TILE / LANES];
    Psi psi[TILE / LANES];
    if (n < 1) return;
    if (!job.scale_step)
        for (int j = 0; j < TILE / LANES; j++) inverse[j] = 1.0f / all(*job.scale), logs[j] = log_any(all(*job.scale));
    if (!job.shape_step)
        for (int j = 0; j < TILE / LANES; j++) own[j] = j ? own[0] : normaliser<kind>(all(*job.shape), Q, R);
    for (int64_t start = 0; start < n; start += TILE) {
        int m = (int)(n - start < TILE ? n - start : TILE) / LANES;
        if (job.scale_step)
            for (int j = 0; j < m; j++) {
                Vec scale = load(job.scale + start + j * LANES);
                inverse[j] = 1.0f / scale, logs[j] = log_any(scale);
            }
        if (job.shape_step)
            for (int j = 0; j < m; j++) own[j] = normaliser<kind>(load(job.shape + start + j * LANES), Q, R);
        for (int j = 0; j < m; j++) {
            int64_t i = start + j * LANES;
            z[j] = (load(job.target + i) - load(job.prediction + i)) * inverse[j];
            if (kind == NORMAL) psi[j] = normal(z[j]);
            if (kind == LAPLACE) psi[j] = laplace(z[j]);
            if (kind == STUDENT_T) tails[j] = log_tail(z[j], own[j]);
            if (kind == ROBUST) tails[j] = log_tail(bounded(z[j]), own[j]);
        }
        if (kind == STUDENT_T) for (int j = 0; j < m; j++) psi[j] = student_t(z[j], tails[j], own[j]);
        if (kind == ROBUST)
            for (int j = 0; j < m; j++) {
                Vec alpha = job.shape_step ? load(job.shape + start + j * LANES) : all(*job.shape);
                psi[j] = robust(bounded(z[j]), tails[j], alpha, own[j]);
            }
        Vec sums[3] = {};
        for (int j = 0; j < m; j++) {
            int64_t i = start + j * LANES;
            Vec factor = job.upstream ? job.factor * load(job.upstream + i) : all(job.factor);
            Vec value = psi[j].value + own[j].value + logs[j] + job.constant;
            Vec d_scale = factor * (1.0f - z[j] * psi[j].slope) * inverse[j];
            Vec d_shape = factor * (psi[j].shape_slope + own[j].slope);
            if (job.each) store(job.each + i, value);
            if (job.d_prediction) store(job.d_prediction + i, -factor * psi[j].slope * inverse[j]);
            if (job.d_scale) store(job.d_scale + i, d_scale);
            if (job.d_shape) store(job.d_shape + i, d_shape);
            sums[0] += factor * value;
            sums[1] += d_scale;
            sums[2] += d_shape;
        }
        for (int k = 0; k < 3; k++)
            for (int lane = 0; lane < LANES; lane++) totals[k] += sums[k][lane];
    }
}

static void all_of(int kind, int64_t n, const Job &job, const float *Q, const float *R, double *totals) {
    if (kind == NORMAL) run<NORMAL>(n, job, Q, R, totals);
    else if (kind == LAPLACE) run<LAPLACE>(n, job, Q, R, totals);
    else if (kind == STUDENT_T) run<STUDENT_T>(n, job, Q, R, totals);
    else run<ROBUST>(n, job, Q, R, totals);
}

/* Elements start to end. The last few, less than a vector, are computed in copies filled up with elements of weight 0. */
extern "C" void likely_location(int kind, int64_t start, int64_t end, const Job *whole, const float *Q, const float *R,
                                double *totals) {
    Job job = *whole;
    const float **inputs[] = {&job.prediction, &job.target, &job.scale, &job.shape, &job.upstream};
    float **outputs[] = {&job.each, &job.d_prediction, &job.d_scale, &job.d_shape};
    const int64_t steps[] = {1, 1, job.scale_step, job.shape_step, 1};
    for (int k = 0; k < 5; k++) if (*inputs[k]) *inputs[k] += start * steps[k];
    for (int k = 0; k < 4; k++) if (*outputs[k]) *outputs[k] += start;
    int64_t rest = (end - start) % LANES, full = end - start - rest;
    all_of(kind, full, job, Q, R, totals);
    if (!rest) return;

    float in[5][LANES], out[4][LANES], *results[4];
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < LANES; i++) {
            const float *from = *inputs[k];
            in[k][i] = i < rest ? (from ? from[steps[k] * (full + i)] : 1.0f) : (k == 4 ? 0.0f : 1.0f);
        }
    for (int k = 0; k < 5; k++) *inputs[k] = in[k];
    for (int k = 0; k < 4; k++) {
        results[k] = *outputs[k] ? *outputs[k] + full : 0;
        if (results[k]) *outputs[k] = out[k];
    }
    job.scale_step = job.shape_step = 1;
    all_of(kind, LANES, job, Q, R, totals);
    for (int k = 0; k < 4; k++) if (results[k]) memcpy(results[k], out[k], rest * sizeof(float));
}
