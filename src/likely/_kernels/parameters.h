/* Parameters of a likelihood as the kernels on the CPU read them, and the gradients they collect for them. */
#pragma once
#include <stdlib.h>

#include "vectors.h"

INLINE double sum_of(Vec x) {
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) sum += x[lane];
    return sum;
}

enum { AS_IT_IS, SOFTPLUS, INTERVAL, EXPONENTIAL };

/* One number, one per element, or one for each `inner` elements in turn, and again from the first after `count`.
 * The likelihood sees (log(1 + e^raw) + low) * width under SOFTPLUS, low + width / (1 + e^-raw) under INTERVAL,
 * low + e^raw under EXPONENTIAL.
 * `slope` takes the gradient in raw, once per worker where they share numbers; it is null where nobody asks. */
struct Parameter {
    const float *raw;
    float *slope;
    int64_t inner, count, constraint;
    float low, width;
};

INLINE Vec constrained(const Parameter &of, Vec raw, Vec *slope) {
    if (of.constraint == AS_IT_IS) {
        *slope = all(1.0f);
        return raw;
    }
    if (of.constraint == EXPONENTIAL) {
        *slope = exp_(at_most(raw, 80.0f)); /* finite, and not zero: the raw value returns from beyond */
        return *slope + of.low;
    }
    Vec sigmoid, soft = softplus(raw, &sigmoid);
    if (of.constraint == SOFTPLUS) {
        *slope = sigmoid * of.width;
        return (soft + of.low) * of.width;
    }
    Vec opposite;
    softplus(-raw, &opposite);
    *slope = of.width * sigmoid * opposite;
    return of.low + of.width * sigmoid;
}

/* The values of a parameter, a tile at a time, for one worker that goes through elements start to end. */
struct Values {
    const Parameter &of;
    Vec value[TILE / LANES], gradient[TILE / LANES];
    float *slope, *values, *gradients;
    double total, *totals;
    int64_t first, last;
    bool each, begun;

    Values(const Parameter &parameter, int64_t n, int64_t start, int64_t end, int64_t worker) : of(parameter) {
        begun = false, total = 0.0, values = gradients = 0, totals = 0;
        each = of.inner == 1 && of.count >= n && n > 1;
        first = 0, last = of.count;
        bool apart = of.inner * of.count >= n && !one(); /* no two workers share a number */
        slope = of.slope && !apart ? of.slope + worker * of.count : of.slope;
        if (one() || each) return;
        if (apart) first = start / of.inner, last = (end - 1) / of.inner + 1;
        int64_t room = (last - first + LANES - 1) / LANES * LANES;
        values = (float *)malloc(room * 2 * sizeof(float)), gradients = values + room;
        totals = (double *)calloc(last - first, sizeof(double));
        for (int64_t k = 0; k < room; k += LANES) {
            Vec raw, own;
            if (first + k + LANES <= last) raw = load(of.raw + first + k);
            else for (int lane = 0; lane < LANES; lane++) raw[lane] = of.raw[first + k + lane < last ? first + k + lane : first];
            store(values + k, constrained(of, raw, &own));
            store(gradients + k, own);
        }
    }
    ~Values() { free(values), free(totals); }

    bool one() const { return of.count == 1; }

    /* The tile of `count` elements from `at` on; whether it differs from the last. */
    bool next(int64_t at, int count) {
        if (one()) {
            if (begun) return false;
            begun = true;
            for (int j = 0; j < TILE / LANES; j++) {
                if (j) value[j] = value[0];
                else value[j] = constrained(of, all(*of.raw), &gradient[0]);
            }
            return true;
        }
        float *to = (float *)value;
        int filled = (count + LANES - 1) / LANES;
        if (each) {
            for (int i = count; i < filled * LANES; i++) to[i] = of.constraint ? 0.0f : 1.0f;
            memcpy(to, of.raw + at, count * sizeof(float));
            if (of.constraint) for (int j = 0; j < filled; j++) value[j] = constrained(of, value[j], &gradient[j]);
            return true;
        }
        int64_t k = at / of.inner % of.count - first, left = of.inner - at % of.inner;
        for (int i = 0; i < count;) {
            int stop = (int)(left < count - i ? i + left : count);
            float same = values[k];
            for (left -= stop - i; i < stop; i++) to[i] = same;
            if (!left && (left = of.inner, ++k == of.count - first)) k = 0;
        }
        for (int i = count; i < filled * LANES; i++) to[i] = to[count - 1];
        return true;
    }

    /* The gradient in the values of that tile. */
    void collect(int64_t at, int count, const Vec *d_value) {
        if (!slope) return;
        int filled = (count + LANES - 1) / LANES;
        if (one()) {
            Vec sum = {0};
            for (int j = 0; j < filled; j++) sum += d_value[j];
            total += sum_of(sum);
            return;
        }
        if (each) {
            if (of.constraint) for (int j = 0; j < filled; j++) gradient[j] *= d_value[j];
            memcpy(slope + at, of.constraint ? gradient : d_value, count * sizeof(float));
            return;
        }
        const float *from = (const float *)d_value;
        int64_t k = at / of.inner % of.count - first, left = of.inner - at % of.inner;
        for (int i = 0; i < count;) {
            int stop = (int)(left < count - i ? i + left : count);
            float sum = 0.0f;
            for (left -= stop - i; i < stop; i++) sum += from[i];
            totals[k] += sum;
            if (!left && (left = of.inner, ++k == of.count - first)) k = 0;
        }
    }

    void finish() {
        if (!slope || each) return;
        if (one()) *slope = (float)(total * gradient[0][0]);
        else for (int64_t k = first; k < last; k++) slope[k] = (float)(totals[k - first] * gradients[k - first]);
    }
};

/* Elements at … at + count; the last few, less than a vector, in copies filled up with elements of weight 0. */
struct Tile {
    const float *prediction, *target, *upstream;
    int64_t at;
    int count;
    float filled[3][TILE];

    Tile(const float *x, const float *y, const float *weight, int64_t from, int length) {
        at = from, count = length;
        prediction = x + at, target = y + at, upstream = weight ? weight + at : 0;
        if (count % LANES == 0) return;
        for (int i = 0; i < (count + LANES - 1) / LANES * LANES; i++) {
            bool inside = i < count;
            filled[0][i] = inside ? prediction[i] : 1.0f;
            filled[1][i] = inside ? target[i] : 1.0f;
            filled[2][i] = !inside ? 0.0f : upstream ? upstream[i] : 1.0f;
        }
        prediction = filled[0], target = filled[1], upstream = filled[2];
    }

    void put(float *to, int j, Vec x) const {
        int rest = count - j * LANES;
        if (rest >= LANES) store(to + at + j * LANES, x);
        else memcpy(to + at + j * LANES, &x, rest * sizeof(float));
    }
};
