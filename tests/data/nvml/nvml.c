/* libnvidia-ml.so.1 with two GPUs, of which the second one is an old one that reads no health. Names, types and codes are those of nvml.h (docs.nvidia.com/deploy/nvml-api); the answers are made up.
 *
 * NVML_FOLDER holds: `lost`: GPU 0 cannot be reached; `unloaded`: the driver went away, and who comes back to it must
 * begin anew; `no-driver`. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15 };

typedef struct gpu { int index; } *device_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { device_t device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; } event_t;

static struct gpu gpus[2] = {{0}, {1}};
static int events_left;

static int is(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("NVML_FOLDER"), name);
    return access(path, F_OK) == 0;
}

static int begun;

int nvmlInitWithFlags(unsigned int flags) { begun = 1; return is("no-driver") ? DRIVER_NOT_LOADED : OK; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 2;
    begun = begun && !is("unloaded");
    return begun ? OK : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    *device = &gpus[index];
    return index == 0 && is("lost") ? GPU_IS_LOST : OK;
}

int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned int length) {
    snprintf(uuid, length, "GPU-%d", device->index);
    return OK;
}

int nvmlDeviceGetUtilizationRates(device_t device, utilization_t *rates) { rates->gpu = 37; return OK; }

int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory) {
    memory->total = 80ULL << 30;
    memory->used = 20ULL << 30;
    memory->free = 60ULL << 30;
    return OK;
}

int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned int *celsius) {
    *celsius = 54;
    return OK;
}

int nvmlDeviceGetPowerUsage(device_t device, unsigned int *milliwatts) { *milliwatts = 71500; return OK; }

int nvmlDeviceGetTotalEccErrors(device_t device, int type, int counter, unsigned long long *count) {
    *count = type == 1 && counter == 0 ? 3 : 999; /* uncorrected, since the driver was loaded */
    return device->index ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetRemappedRows(device_t device, unsigned int *correctable, unsigned int *uncorrectable,
                              unsigned int *pending, unsigned int *failed) {
    *correctable = *uncorrectable = *pending = 7;
    *failed = 1;
    return device->index ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device_t device, unsigned long long *reasons) {
    *reasons = 0x40;
    return device->index ? NOT_SUPPORTED : OK;
}

int nvmlEventSetCreate(void **set) { *set = &events_left; return OK; }

int nvmlDeviceRegisterEvents(device_t device, unsigned long long types, void *set) {
    if (device->index) return NOT_SUPPORTED;
    if (types == 8) events_left = 2; /* XIDs */
    return OK;
}

int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int timeout_ms) {
    if (!events_left) return TIMEOUT;
    memset(event, 0, sizeof *event);
    event->device = &gpus[0];
    event->data = events_left-- == 2 ? 13 : 79; /* first 13, then 79 */
    return OK;
}
