/* A stand-in for libibverbs.so.1: two devices whose events come through a pipe each.
 *
 * FAKE_VERBS names a folder with one FIFO a device; a record of two ints (type, port) is an event, an end of
 * file breaks the context. The layout of struct ibv_async_event is that of rdma-core's verbs.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ibv_device { char name[64]; };
struct ibv_context { int fd; };
struct ibv_async_event {
  union { void *cq; void *qp; void *srq; void *wq; int port_num; } element;
  int event_type;
};

static struct ibv_device devices[2] = {{"mlx5_0"}, {"mlx5_1"}};
static struct ibv_device *list[3] = {&devices[0], &devices[1], NULL};

struct ibv_device **ibv_get_device_list(int *count) {
  *count = getenv("FAKE_VERBS") ? 2 : 0;
  return list;
}
const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }
struct ibv_context *ibv_open_device(struct ibv_device *device) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("FAKE_VERBS"), device->name);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return NULL;
  struct ibv_context *context = malloc(sizeof *context);
  context->fd = fd;
  return context;
}
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
  int said[2];
  if (read(context->fd, said, sizeof said) != (ssize_t)sizeof said) { errno = EIO; return -1; }
  memset(event, 0xee, sizeof *event);
  event->event_type = said[0];
  event->element.port_num = said[1];
  return 0;
}
void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }
int ibv_close_device(struct ibv_context *context) {
  close(context->fd);
  free(context);
  return 0;
}
