/* The softmax likelihood of rows with few classes on the CPU: loss and gradients in one pass over the data.
 *
 * With u = logit / T, l = log sum e^u - u_y, so that dl/dlogit = (p - y) / T and dl/dT = -<p - y, u> / T; of smoothed
 * labels y holds `smoothing` spread evenly. Rows are short, and no whole number of vectors: exponentials are taken over
 * a tile of several rows at once, sums row by row.
 */
#include "parameters.h"

#define ROOM 1024 /* most classes, and elements in a tile; a multiple of LANES */

struct Job {
    const float *logits;
    const int64_t *target;
    float *d_logits, *loss;
    Parameter temperature;
    int64_t rows, classes, ignored;
    float factor, smoothing;
};

/* The rows whose label counts; -1 where a label is no class. */
extern "C" int64_t likely_labels(const int64_t *target, int64_t rows, int64_t classes, int64_t ignored) {
    int64_t kept = 0, wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        bool counts = target[i] != ignored;
        kept += counts;
        wrong += counts & ((uint64_t)target[i] >= (uint64_t)classes);
    }
    return wrong ? -1 : kept;
}

/* Rows start to end, by one of several workers. */
extern "C" void likely_softmax(int64_t start, int64_t end, int64_t worker, const Job *job) {
    const int64_t classes = job->classes;
    const float share = job->smoothing / classes, rest = 1.0f - job->smoothing;
    const int64_t most = ROOM / classes < TILE ? ROOM / classes : TILE;
    float u[ROOM], e[ROOM];
    Vec slopes[TILE / LANES] = {};
    Values temperature(job->temperature, job->rows, start, end, worker);
    double total = 0.0;
    bool sound = true; /* a temperature that is not positive makes the loss NaN */
    for (int64_t at = start; at < end; at += most) {
        int rows = (int)(end - at < most ? end - at : most), elements = (int)(rows * classes);
        temperature.next(at, rows);
        const float *hot = (const float *)temperature.value, *logits = job->logits + at * classes;
        float *slope = (float *)slopes;
        for (int r = 0; r < rows; r++) {
            const float *z = logits + r * classes;
            float cold = 1.0f / hot[r], highest = z[0];
            sound = sound && hot[r] > 0.0f;
            for (int c = 1; c < classes; c++) highest = z[c] > highest ? z[c] : highest;
            for (int c = 0; c < classes; c++) u[r * classes + c] = (z[c] - highest) * cold;
        }
        for (int i = elements; i % LANES; i++) u[i] = 0.0f;
        for (int i = 0; i < elements; i += LANES) {
            Vec x = load(u + i);
            store(e + i, pick(x < -87.0f, all(0.0f), exp_(x)));
        }
        for (int r = 0; r < rows; r++) {
            const int64_t y = job->target[at + r];
            const float *own_u = u + r * classes, *own_e = e + r * classes;
            const bool kept = y != job->ignored;
            float sum = 0.0f, first = 0.0f, plain = 0.0f;
            for (int c = 0; c < classes; c++) sum += own_e[c], first += own_e[c] > 0.0f ? own_e[c] * own_u[c] : 0.0f;
            if (share) for (int c = 0; c < classes; c++) plain += own_u[c];
            float cold = 1.0f / hot[r], inverse = 1.0f / sum, weight = kept ? job->factor : 0.0f;
            float label = kept ? rest * own_u[y] + share * plain : 0.0f;
            if (kept) total += (double)job->factor * (logf(sum) - label);
            slope[r] = kept ? weight * cold * (label - first * inverse) : 0.0f;
            if (!job->d_logits) continue;
            float *d = job->d_logits + (at + r) * classes;
            for (int c = 0; c < classes; c++) d[c] = weight * cold * (own_e[c] * inverse - share);
            if (kept) d[y] -= weight * cold * rest;
        }
        for (int i = rows; i % LANES; i++) slope[i] = 0.0f;
        temperature.collect(at, rows, slopes);
    }
    temperature.finish();
    job->loss[worker] = sound ? (float)total : NAN;
}
