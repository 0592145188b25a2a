/* Runs a kernel on numbers from stdin and writes what it finds to stdout: for processors that only an emulator has here.
 * Arguments: kind, elements, numbers of the scale and of the shape; or "softmax", rows, classes, temperatures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parameters.h"
namespace location {
#include "location.cpp"
}
namespace classes {
#include "softmax.cpp"
}

static float *read(int64_t n) {
    float *to = (float *)malloc(n * sizeof(float) + 1);
    if ((int64_t)fread(to, sizeof(float), n, stdin) != n) exit(2);
    return to;
}

static float *room(int64_t n) { return (float *)calloc(n + 1, sizeof(float)); }
static void write(const float *from, int64_t n) { fwrite(from, sizeof(float), n, stdout); }

int main(int argc, char **argv) {
    int64_t n = atoi(argv[2]), second = atoi(argv[3]), third = atoi(argv[4]);
    float loss = 0.0f;
    if (!strcmp(argv[1], "softmax")) {
        float *logits = read(n * second), *labels = read(n), *raw = read(third), *d = room(n * second), *slope = room(third);
        int64_t *target = (int64_t *)malloc(n * sizeof(int64_t));
        for (int64_t i = 0; i < n; i++) target[i] = (int64_t)labels[i];
        int64_t kept = classes::likely_labels(target, n, second, -100);
        classes::Job job = {logits, target, d, &loss, {raw, slope, 1, third, 0, 0.0f, 0.0f}, n, second, -100, 1.0f / kept, 0.1f};
        classes::likely_softmax(0, n, 0, &job);
        write(&loss, 1), write(d, n * second), write(slope, third);
        return 0;
    }
    float *x = read(n), *y = read(n), *scale = read(second), *shape = read(third), *Q = read(160), *R = read(48);
    float *d = room(n), *d_scale = room(second), *d_shape = room(third), *each = room(n);
    location::Job job = {x, y, 0, each, d, &loss, {scale, d_scale, 1, second, 0, 0.0f, 0.0f}, {shape, d_shape, 1, third, 0, 0.0f, 0.0f}, n, 1.0f / n, 0.0f};
    location::likely_location(atoi(argv[1]), 0, n, 0, &job, Q, R);
    write(&loss, 1), write(d, n), write(d_scale, second), write(d_shape, third), write(each, n);
}
