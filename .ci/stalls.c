/* A library for LD_PRELOAD: system calls stall at random, as those of a busy machine do. See stalls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static unsigned per_million, most_ms;

static __attribute__((constructor)) void read_settings(void) {
  per_million = atoi(getenv("STALLS_PER_MILLION"));
  most_ms = atoi(getenv("STALL_MS"));
}

static void may_stall(void) {
  static __thread uint64_t random; /* xorshift */
  if (!random) random = (((uintptr_t)&random ^ ((uint64_t)getpid() << 32)) * 0x9E3779B97F4A7C15u) | 1;
  random ^= random << 13, random ^= random >> 7, random ^= random << 17;
  if ((random >> 20) % 1000000 >= per_million) return;
  int before = errno;
  long us = (random >> 40) % (most_ms * 1000 + 1);
  nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
  errno = before;
}

/* Stalls before and after the call. */
#define STALLING(type, name, parameters, arguments)                       \
  type name parameters {                                                  \
    static type(*original) parameters;                                    \
    if (!original) original = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
    may_stall();                                                          \
    type result = original arguments;                                     \
    may_stall();                                                          \
    return result;                                                        \
  }

STALLING(ssize_t, read, (int file, void *bytes, size_t size), (file, bytes, size))
STALLING(ssize_t, write, (int file, const void *bytes, size_t size), (file, bytes, size))
STALLING(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
STALLING(ssize_t, send, (int file, const void *bytes, size_t size, int flags), (file, bytes, size, flags))
STALLING(ssize_t, recv, (int file, void *bytes, size_t size, int flags), (file, bytes, size, flags))
STALLING(ssize_t, recvmsg, (int file, struct msghdr *message, int flags), (file, message, flags))
STALLING(int, epoll_wait, (int file, struct epoll_event *events, int most, int ms), (file, events, most, ms))
STALLING(int, accept4, (int file, struct sockaddr *address, socklen_t *size, int flags), (file, address, size, flags))
STALLING(int, connect, (int file, const struct sockaddr *address, socklen_t size), (file, address, size))
STALLING(int, clock_gettime, (clockid_t clock, struct timespec *time), (clock, time))

/* Rust's locks and channels wait and wake through it. */
long syscall(long number, ...) {
  static long (*original)(long, ...);
  if (!original) original = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  may_stall();
  long result = original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  may_stall();
  return result;
}
