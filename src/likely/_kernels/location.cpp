/* Normal, Laplace, Student's t, robust and Bernoulli likelihoods on the CPU: loss and gradients in one pass over the data.
 *
 * The first four are l = psi(z, shape) + log Z(shape) + log(scale) with z = (target - prediction) / scale, so that
 * dl/dprediction = -psi'(z) / scale and dl/dscale = (1 - z psi'(z)) / scale. The formulas, those of
 * likely/functional.py and of rho.py and partition.py in likely/_numerics, are written on vectors of LANES numbers without
 * branches. One element takes hundreds of steps, each waiting for the last; so the work goes in tiles that stay in the
 * first-level cache, in several short loops over a tile, in which the processor has many vectors in flight.
 */
#include "parameters.h"

#define TERMS 10 /* of Q on a quarter of a piece */

enum { NORMAL, LAPLACE, STUDENT_T, ROBUST, BERNOULLI };

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
    static constexpr Series value(1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f);
    static constexpr Series change(1.0f / 5760, 1.0f / 840, 1.0f / 144, 1.0f / 30, 1.0f / 8, 1.0f / 3, 0.5f);
    Vec v = value(n), s = change(n);
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

/* The Bernoulli NLL of a logit z, log(1 + e^z) - y z. */
INLINE Psi bernoulli(Vec z, Vec y) {
    Vec sigmoid, log = softplus(z, &sigmoid);
    return {log - y * z, sigmoid - y, all(0.0f)};
}

/* What is null is not written. `upstream` holds a factor for each element, or is null; `loss` a number per worker. */
struct Job {
    const float *prediction, *target, *upstream;
    float *each, *d_prediction, *loss;
    Parameter scale, shape;
    int64_t n;
    float factor, constant;
};

template <int kind> INLINE Normaliser normaliser(Vec shape, const float *Q, const float *R) {
    if (kind == STUDENT_T) return student_t_normaliser(shape);
    if (kind == ROBUST) return robust_normaliser(shape, Q, R);
    Vec none = all(0.0f);
    return {none, none, none, none, none};
}

/* Whether all targets are such as the likelihood allows. */
template <int kind> static bool run(int64_t start, int64_t end, int64_t worker, const Job &job, const float *Q, const float *R) {
    Vec z[TILE / LANES], inverse[TILE / LANES], logs[TILE / LANES], tails[TILE / LANES];
    Vec d_scale[TILE / LANES], d_shape[TILE / LANES];
    Normaliser own[TILE / LANES];
    Psi psi[TILE / LANES];
    Values scale(job.scale, job.n, start, end, worker), shape(job.shape, job.n, start, end, worker);
    double total = 0.0;
    Int wrong = {0};
    for (int64_t at = start; at < end; at += TILE) {
        int count = (int)(end - at < TILE ? end - at : TILE), m = (count + LANES - 1) / LANES;
        Tile tile(job.prediction, job.target, job.upstream, at, count);
        if (scale.next(at, count))
            for (int j = 0; j < TILE / LANES; j++) inverse[j] = 1.0f / scale.value[j], logs[j] = log_any(scale.value[j]);
        if (kind == STUDENT_T || kind == ROBUST)
            if (shape.next(at, count)) {
                int distinct = shape.one() ? 1 : m;
                for (int j = 0; j < distinct; j++) own[j] = normaliser<kind>(shape.value[j], Q, R);
                if (shape.one()) for (int j = 1; j < TILE / LANES; j++) own[j] = own[0];
            }
        for (int j = 0; j < m; j++) {
            Vec x = load(tile.prediction + j * LANES), y = load(tile.target + j * LANES);
            z[j] = (kind == BERNOULLI ? x : y - x) * inverse[j];
            if (kind == NORMAL) psi[j] = normal(z[j]);
            if (kind == LAPLACE) psi[j] = laplace(z[j]);
            if (kind == STUDENT_T) tails[j] = log_tail(z[j], own[j]);
            if (kind == ROBUST) tails[j] = log_tail(bounded(z[j]), own[j]);
            if (kind == BERNOULLI) psi[j] = bernoulli(z[j], y), wrong |= ~((y >= 0.0f) & (y <= 1.0f) & (inverse[j] > 0.0f));
        }
        if (kind == STUDENT_T) for (int j = 0; j < m; j++) psi[j] = student_t(z[j], tails[j], own[j]);
        if (kind == ROBUST) for (int j = 0; j < m; j++) psi[j] = robust(bounded(z[j]), tails[j], shape.value[j], own[j]);
        Vec sum = {0};
        for (int j = 0; j < m; j++) {
            int64_t i = j * LANES;
            Vec factor = tile.upstream ? job.factor * load(tile.upstream + i) : all(job.factor);
            Vec value = psi[j].value + job.constant, pull = factor * psi[j].slope * inverse[j];
            if (kind == BERNOULLI) {
                d_scale[j] = -z[j] * pull;
            } else {
                value += logs[j];
                d_scale[j] = factor * inverse[j] - z[j] * pull;
                pull = -pull;
            }
            if (kind == STUDENT_T || kind == ROBUST) {
                value += own[j].value;
                d_shape[j] = factor * (psi[j].shape_slope + own[j].slope);
            }
            if (job.each) tile.put(job.each, j, value);
            if (job.d_prediction) tile.put(job.d_prediction, j, pull);
            sum += factor * value;
        }
        scale.collect(at, count, d_scale);
        if (kind == STUDENT_T || kind == ROBUST) shape.collect(at, count, d_shape);
        total += sum_of(sum);
    }
    scale.finish();
    if (kind == STUDENT_T || kind == ROBUST) shape.finish();
    job.loss[worker] = (float)total;
    for (int lane = 0; lane < LANES; lane++) if (wrong[lane]) return false;
    return true;
}

/* Elements start to end, by one of several workers; whether all targets are such as the likelihood allows. */
extern "C" int likely_location(int kind, int64_t start, int64_t end, int64_t worker, const Job *job, const float *Q,
                               const float *R) {
    if (kind == NORMAL) return run<NORMAL>(start, end, worker, *job, Q, R);
    if (kind == LAPLACE) return run<LAPLACE>(start, end, worker, *job, Q, R);
    if (kind == STUDENT_T) return run<STUDENT_T>(start, end, worker, *job, Q, R);
    if (kind == ROBUST) return run<ROBUST>(start, end, worker, *job, Q, R);
    return run<BERNOULLI>(start, end, worker, *job, Q, R);
}
