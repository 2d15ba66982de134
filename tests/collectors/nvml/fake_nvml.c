/* A stand-in for libnvidia-ml.so.1, driven by a file that test and library both map.
 *
 * Enough of nvml.h for the agent: the real binding (nvidia-ml-py) loads it and finds its functions by name.
 * Built with -DOLD_DRIVER it lacks the functions that drivers before branch 535 lack.
 * FAKE_NVML_CONTROL names the control file; its layout is `struct control`, mirrored in fake.py.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t u64;
typedef struct gpu *nvmlDevice_t;
typedef void *nvmlEventSet_t;

enum { GPUS = 16, LINKS = 36, FIELDS = 320, EVENTS = 1024 };
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, GPU_IS_LOST = 15 };

enum function {
  INIT, COUNT, HANDLE, UUID, NAME, PCI, DRIVER, MIG, REASONS, OLD_REASONS, FIELD_VALUES, LINK_STATE,
  LINK_ERRORS, REMOTE_TYPE, REMOTE_PCI, TEMPERATURE, OLD_TEMPERATURE, MARGIN, POWER, CLOCK, UTILIZATION, ECC,
  SRAM, ROWS, HISTOGRAM, PCIE, FABRIC, SUPPORTED_EVENTS, REGISTER, WAIT, FUNCTIONS
};

struct gpu {
  u64 lost, domain, bus, device;
  char uuid[64], name[64];
  u64 mig, reasons, links, temperature, margin, power_mw, sm_clock, utilization;
  u64 ecc[4], sram_threshold, rows[4], histogram[5], pcie[5], fabric_state, fabric_mask, supported_events;
  u64 field[FIELDS], field_there[FIELDS], field_type[FIELDS];
  u64 link_field[LINKS][FIELDS], link_field_there[FIELDS];
  u64 remote_bus[LINKS];
  u64 error[FUNCTIONS];
};

struct event { u64 gpu, type, data, gpu_instance, compute_instance; };

struct control {
  u64 gpus, poll_us, generation;
  char driver[64];
  u64 error[FUNCTIONS], hang[FUNCTIONS], calls[FUNCTIONS];
  u64 head, tail;
  struct event events[EVENTS];
  struct gpu gpu[GPUS];
};

static struct control *control;
static u64 started; /* generation of the driver in which nvmlInit was called, plus one */
static int users;

static int enter(enum function f, struct gpu *gpu) {
  if (f != INIT && (!control || !started || started != control->generation + 1)) return UNINITIALIZED;
  __atomic_add_fetch(&control->calls[f], 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&control->hang[f], __ATOMIC_SEQ_CST)) usleep(2000);
  if (control->error[f]) return (int)control->error[f];
  if (gpu && gpu->lost) return GPU_IS_LOST;
  if (gpu && gpu->error[f]) return (int)gpu->error[f];
  return SUCCESS;
}
#define ENTER(f, gpu) do { int failed = enter(f, gpu); if (failed) return failed; } while (0)

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (!users) { /* the old control file stays mapped: a thread may still wait in it */
    const char *path = getenv("FAKE_NVML_CONTROL");
    int fd = path ? open(path, O_RDWR) : -1;
    if (fd < 0) return 9; /* DRIVER_NOT_LOADED */
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return 999;
    control = at;
  }
  ENTER(INIT, NULL);
  started = control->generation + 1;
  users++;
  return SUCCESS;
}
int nvmlShutdown(void) {
  if (!started) return UNINITIALIZED;
  if (--users == 0) {
    started = 0;
  }
  return SUCCESS;
}
const char *nvmlErrorString(int code) {
  static char text[32];
  snprintf(text, sizeof text, "error %d", code);
  return text;
}
int nvmlSystemGetDriverVersion(char *out, unsigned size) {
  ENTER(DRIVER, NULL);
  snprintf(out, size, "%s", control->driver);
  return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned *out) { ENTER(COUNT, NULL); *out = (unsigned)control->gpus; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned n, nvmlDevice_t *out) {
  ENTER(HANDLE, n < GPUS ? &control->gpu[n] : NULL);
  if (n >= control->gpus) return INVALID_ARGUMENT;
  *out = &control->gpu[n];
  return SUCCESS;
}
int nvmlDeviceGetUUID(nvmlDevice_t g, char *out, unsigned size) {
  ENTER(UUID, g);
  snprintf(out, size, "%s", g->uuid);
  return SUCCESS;
}
int nvmlDeviceGetName(nvmlDevice_t g, char *out, unsigned size) {
  ENTER(NAME, g);
  snprintf(out, size, "%s", g->name);
  return SUCCESS;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
static void address(struct pci *out, unsigned domain, unsigned bus, unsigned device) {
  memset(out, 0, sizeof *out);
  out->domain = domain; out->bus = bus; out->device = device;
  snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff, device & 0x1f);
  snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", domain, bus & 0xff, device & 0x1f);
}
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t g, struct pci *out) {
  ENTER(PCI, g);
  address(out, (unsigned)g->domain, (unsigned)g->bus, (unsigned)g->device);
  return SUCCESS;
}
int nvmlDeviceGetMigMode(nvmlDevice_t g, unsigned *now, unsigned *pending) {
  ENTER(MIG, g);
  *now = *pending = (unsigned)g->mig;
  return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t g, unsigned long long *out) {
  ENTER(OLD_REASONS, g);
  *out = g->reasons;
  return SUCCESS;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t g, unsigned long long *out) {
  ENTER(REASONS, g);
  *out = g->reasons;
  return SUCCESS;
}
struct temperature { unsigned version, sensor; int value; };
int nvmlDeviceGetTemperatureV(nvmlDevice_t g, struct temperature *out) {
  ENTER(TEMPERATURE, g);
  out->value = (int)g->temperature;
  return SUCCESS;
}
struct margin { unsigned version; int value; };
int nvmlDeviceGetMarginTemperature(nvmlDevice_t g, struct margin *out) {
  ENTER(MARGIN, g);
  out->value = (int)(int64_t)g->margin;
  return SUCCESS;
}
struct sram {
  unsigned version;
  unsigned long long counts[11];
  unsigned threshold;
};
int nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t g, struct sram *out) {
  ENTER(SRAM, g);
  memset(out->counts, 0, sizeof out->counts);
  out->threshold = (unsigned)g->sram_threshold;
  return SUCCESS;
}
struct fabric {
  unsigned version;
  unsigned char cluster[16];
  unsigned status, clique;
  unsigned char state;
  unsigned mask;
  unsigned char summary;
};
int nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t g, struct fabric *out) {
  ENTER(FABRIC, g);
  out->state = (unsigned char)g->fabric_state;
  out->mask = (unsigned)g->fabric_mask;
  return SUCCESS;
}
#endif
int nvmlDeviceGetTemperature(nvmlDevice_t g, unsigned sensor, unsigned *out) {
  (void)sensor;
  ENTER(OLD_TEMPERATURE, g);
  *out = (unsigned)g->temperature;
  return SUCCESS;
}
union value { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us; };
struct field_value { unsigned field, scope; long long timestamp, latency; unsigned type, result; union value value; };
int nvmlDeviceGetFieldValues(nvmlDevice_t g, int count, struct field_value *out) {
  ENTER(FIELD_VALUES, g);
  for (int i = 0; i < count; i++) {
    struct field_value *v = &out[i];
    if (v->field >= FIELDS) { v->result = INVALID_ARGUMENT; continue; }
    u64 number;
    if (g->link_field_there[v->field]) {
      if (v->scope >= g->links) { v->result = INVALID_ARGUMENT; continue; }
      number = g->link_field[v->scope][v->field];
    } else if (g->field_there[v->field]) {
      number = g->field[v->field];
    } else {
      v->result = NOT_SUPPORTED;
      continue;
    }
    v->result = SUCCESS;
    v->type = (unsigned)g->field_type[v->field];
    memset(&v->value, 0xff, sizeof v->value); /* whoever reads the wrong member gets nonsense */
    switch (v->type) {
      case 0: v->value.d = (double)number; break;
      case 1: v->value.ui = (unsigned)number; break;
      case 2: v->value.ul = number; break;
      case 4: v->value.sll = (long long)number; break;
      case 5: v->value.si = (int)number; break;
      case 6: v->value.us = (unsigned short)number; break;
      default: v->value.ull = number; break;
    }
  }
  return SUCCESS;
}
int nvmlDeviceGetNvLinkState(nvmlDevice_t g, unsigned link, unsigned *out) {
  ENTER(LINK_STATE, g);
  if (link >= g->links) return INVALID_ARGUMENT;
  *out = (unsigned)g->link_field[link][165];
  return SUCCESS;
}
int nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t g, unsigned link, unsigned counter, unsigned long long *out) {
  ENTER(LINK_ERRORS, g);
  if (link >= g->links || counter > 3) return INVALID_ARGUMENT;
  *out = g->link_field[link][161 + counter];
  return SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t g, unsigned link, unsigned *out) {
  ENTER(REMOTE_TYPE, g);
  if (link >= g->links) return INVALID_ARGUMENT;
  *out = 2;
  return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t g, unsigned link, struct pci *out) {
  ENTER(REMOTE_PCI, g);
  if (link >= g->links) return INVALID_ARGUMENT;
  address(out, 0, (unsigned)g->remote_bus[link], 0);
  return SUCCESS;
}
int nvmlDeviceGetPowerUsage(nvmlDevice_t g, unsigned *out) { ENTER(POWER, g); *out = (unsigned)g->power_mw; return SUCCESS; }
int nvmlDeviceGetClockInfo(nvmlDevice_t g, unsigned kind, unsigned *out) {
  (void)kind;
  ENTER(CLOCK, g);
  *out = (unsigned)g->sm_clock;
  return SUCCESS;
}
struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(nvmlDevice_t g, struct utilization *out) {
  ENTER(UTILIZATION, g);
  if (g->mig) return NOT_SUPPORTED;
  out->gpu = (unsigned)g->utilization;
  out->memory = 0;
  return SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(nvmlDevice_t g, unsigned error, unsigned counter, unsigned long long *out) {
  ENTER(ECC, g);
  *out = g->ecc[(error & 1) * 2 + (counter & 1)];
  return SUCCESS;
}
int nvmlDeviceGetRemappedRows(nvmlDevice_t g, unsigned *cor, unsigned *unc, unsigned *pending, unsigned *failed) {
  ENTER(ROWS, g);
  if (g->mig) return NOT_SUPPORTED;
  *cor = (unsigned)g->rows[0]; *unc = (unsigned)g->rows[1];
  *pending = (unsigned)g->rows[2]; *failed = (unsigned)g->rows[3];
  return SUCCESS;
}
int nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t g, unsigned *out) {
  ENTER(HISTOGRAM, g);
  for (int i = 0; i < 5; i++) out[i] = (unsigned)g->histogram[i];
  return SUCCESS;
}
#define PCIE_QUESTION(name, n) \
  int name(nvmlDevice_t g, unsigned *out) { ENTER(PCIE, g); *out = (unsigned)g->pcie[n]; return SUCCESS; }
PCIE_QUESTION(nvmlDeviceGetCurrPcieLinkGeneration, 0)
PCIE_QUESTION(nvmlDeviceGetMaxPcieLinkGeneration, 1)
PCIE_QUESTION(nvmlDeviceGetCurrPcieLinkWidth, 2)
PCIE_QUESTION(nvmlDeviceGetMaxPcieLinkWidth, 3)
PCIE_QUESTION(nvmlDeviceGetPcieReplayCounter, 4)

int nvmlDeviceGetSupportedEventTypes(nvmlDevice_t g, unsigned long long *out) {
  ENTER(SUPPORTED_EVENTS, g);
  *out = g->supported_events;
  return SUCCESS;
}
int nvmlEventSetCreate(nvmlEventSet_t *out) { *out = malloc(1); return SUCCESS; }
int nvmlEventSetFree(nvmlEventSet_t set) { free(set); return SUCCESS; }
int nvmlDeviceRegisterEvents(nvmlDevice_t g, unsigned long long wanted, nvmlEventSet_t set) {
  (void)set;
  ENTER(REGISTER, g);
  return wanted & ~g->supported_events ? NOT_SUPPORTED : SUCCESS;
}
struct event_data { nvmlDevice_t device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
int nvmlEventSetWait_v2(nvmlEventSet_t set, struct event_data *out, unsigned timeout_ms) {
  (void)set;
  ENTER(WAIT, NULL);
  struct control *here = control;
  u64 pause = here->poll_us ? here->poll_us : 500;
  for (u64 waited = 0;; waited += pause) {
    if (here != control || !started || started != here->generation + 1) return UNINITIALIZED;
    if (here->error[WAIT]) return (int)here->error[WAIT];
    if (here->head != __atomic_load_n(&here->tail, __ATOMIC_SEQ_CST)) {
      struct event *e = &here->events[here->head++ % EVENTS];
      out->device = &here->gpu[e->gpu];
      out->type = e->type;
      out->data = e->data;
      out->gpu_instance = (unsigned)e->gpu_instance;
      out->compute_instance = (unsigned)e->compute_instance;
      return SUCCESS;
    }
    if (waited >= (u64)timeout_ms * 1000) return TIMEOUT;
    usleep((useconds_t)pause);
  }
}
