/* A parameter read off features, on the CPU: running moments, standardised features and one linear layer in one call.
 *
 * What is learned and computed is what likely._standardize and torch's linear layer say. Features x are (rows, width),
 * the layer's weight is (outputs, width), and `moments` holds the mean and the deviation that this batch was
 * standardised by, how far from the mean features may be, and then mean, var and batches as they were before it.
 */
#include <stdlib.h>

#include "vectors.h"

/* A batch whose moments are not finite leaves mean, var and batches as they were. */
static void learn(const float *x, int64_t rows, int64_t width, float momentum, float *mean, float *var, float *batches) {
    double *sums = (double *)calloc(2 * width, sizeof(double)), *squares = sums + width;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < width; k++) sums[k] += x[i * width + k];
    for (int64_t k = 0; k < width; k++) sums[k] /= rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < width; k++) {
            double off = x[i * width + k] - sums[k];
            squares[k] += off * off;
        }
    double weight = 1.0 / (*batches + 1.0);
    bool sound = true;
    if (weight < momentum) weight = momentum;
    for (int64_t k = 0; k < width; k++) {
        double shift = sums[k] - mean[k];
        squares[k] = (1 - weight) * (var[k] + weight * shift * shift) + weight * squares[k] / rows;
        sums[k] = mean[k] + weight * shift;
        sound = sound && isfinite((float)squares[k]) && isfinite((float)shift);
    }
    for (int64_t k = 0; sound && k < width; k++) mean[k] = (float)sums[k], var[k] = (float)squares[k];
    *batches += sound;
    free(sums);
}

/* The mean, and what features are divided by: one for a feature that is constant to rounding. */
extern "C" void likely_moments(const float *x, int64_t rows, int64_t width, int learning, float momentum, float reach,
                               float *mean, float *var, float *batches, float *moments) {
    memcpy(moments + 3 * width, mean, width * sizeof(float));
    memcpy(moments + 4 * width, var, width * sizeof(float));
    moments[5 * width] = *batches;
    if (learning) learn(x, rows, width, momentum, mean, var, batches);
    for (int64_t k = 0; k < width; k++) {
        float root = sqrtf(var[k]);
        moments[k] = mean[k];
        moments[width + k] = root <= 4 * EPS * fabsf(mean[k]) ? 1.0f : root;
        moments[2 * width + k] = reach * moments[width + k];
    }
}

/* A distance from the mean, no farther than features may be; NaN stays. */
INLINE float within(float off, float reach) { return off > reach ? reach : off < -reach ? -reach : off; }

extern "C" void likely_head(const float *x, int64_t rows, int64_t width, int64_t outputs, const float *moments,
                            const float *weight, const float *bias, float *raw) {
    const float *reach = moments + 2 * width;
    float *scaled = (float *)malloc(outputs * width * sizeof(float));
    for (int64_t j = 0; j < outputs * width; j++) scaled[j] = weight[j] / moments[width + j % width];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < outputs; j++) {
            const float *own = x + i * width, *by = scaled + j * width;
            Vec sums = {0};
            int64_t k = 0;
            for (; k + LANES <= width; k += LANES) {
                Vec off = load(own + k) - load(moments + k), far = load(reach + k);
                off = off > far ? far : off;
                sums += (off < -far ? -far : off) * load(by + k);
            }
            float sum = bias[j];
            for (; k < width; k++) sum += within(own[k] - moments[k], reach[k]) * by[k];
            for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
            raw[i * outputs + j] = sum;
        }
    free(scaled);
}

/* Gradients of features, weight and bias; a null pointer is not written. */
extern "C" void likely_head_slopes(const float *d_raw, const float *x, int64_t rows, int64_t width, int64_t outputs,
                                   const float *moments, const float *weight, float *d_x, float *d_weight,
                                   float *d_bias) {
    const float *reach = moments + 2 * width;
    double *sums = (double *)calloc(outputs * (width + 1), sizeof(double)), *biases = sums + outputs * width;
    float *scaled = (float *)malloc(outputs * width * sizeof(float));
    for (int64_t j = 0; j < outputs * width; j++) scaled[j] = weight[j] / moments[width + j % width];
    for (int64_t i = 0; i < rows; i++) {
        if (d_x) memset(d_x + i * width, 0, width * sizeof(float));
        for (int64_t j = 0; j < outputs; j++) {
            float d = d_raw[i * outputs + j];
            biases[j] += d;
            for (int64_t k = 0; k < width; k++)
                sums[j * width + k] += d * within(x[i * width + k] - moments[k], reach[k]);
            if (d_x) for (int64_t k = 0; k < width; k++) d_x[i * width + k] += d * scaled[j * width + k];
        }
        if (d_x)
            for (int64_t k = 0; k < width; k++)
                if (fabsf(x[i * width + k] - moments[k]) > reach[k]) d_x[i * width + k] = 0;
    }
    if (d_weight)
        for (int64_t j = 0; j < outputs * width; j++) d_weight[j] = (float)(sums[j] / moments[width + j % width]);
    if (d_bias) for (int64_t j = 0; j < outputs; j++) d_bias[j] = (float)biases[j];
    free(sums), free(scaled);
}
