/* bare: the least a server can do, to tell what a machine allows from what a broker costs.
 *
 *   cc -O2 -o bare bare.c && ./bare 10999
 *   ./loadgen -p 10999 -c 16 -w 2
 *
 * One thread answers every send that loadgen makes with the reply of a broker, and stores nothing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 4 << 20, REPLY_BYTES = 256 };
typedef struct { int fd; uint8_t *in; size_t in_n; } Conn;
static uint8_t out[READ_BYTES];

static void put32(uint8_t *p, uint32_t v) { p[0] = v >> 24; p[1] = v >> 16; p[2] = v >> 8; p[3] = v; }
static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

static size_t reply(uint8_t *to, const uint8_t *frame) {
  const char *opaque = memmem(frame + 8, get32(frame + 4) & 0xffffff, "\"opaque\":", 9);
  int n = snprintf((char *)to + 8, REPLY_BYTES - 8, "{\"code\":0,\"extFields\":{\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueId\":\"0\",\"queueOffset\":\"0\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}",
                   opaque ? atoi(opaque + 9) : 0);
  put32(to, 4 + n); put32(to + 4, n);
  return 8 + n;
}
static void accept_one(int listener, int ep) {
  int one = 1; Conn *c = calloc(1, sizeof(Conn));
  c->fd = accept(listener, NULL, NULL); c->in = malloc(READ_BYTES);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
}
static void serve(Conn *c) {
  ssize_t r = recv(c->fd, c->in + c->in_n, READ_BYTES - c->in_n, 0); size_t p = 0, out_n = 0;
  if (r <= 0) { close(c->fd); free(c->in); free(c); return; }
  c->in_n += r;
  while (c->in_n - p >= 8 && c->in_n - p >= 4 + (size_t)get32(c->in + p) && out_n + REPLY_BYTES < sizeof out) {
    out_n += reply(out + out_n, c->in + p); p += 4 + (size_t)get32(c->in + p);
  }
  memmove(c->in, c->in + p, c->in_n - p); c->in_n -= p;
  for (size_t sent = 0; sent < out_n;) { ssize_t w = send(c->fd, out + sent, out_n - sent, MSG_NOSIGNAL); if (w < 0) return; sent += w; }
}
int main(int argc, char **argv) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, ep = epoll_create1(0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 10999)};
  inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&a, sizeof a) || listen(listener, 128)) { perror("bare"); return 1; }
  struct epoll_event e = {.events = EPOLLIN}; epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
  for (;;) {
    struct epoll_event ev[256]; int n = epoll_wait(ep, ev, 256, -1);
    for (int i = 0; i < n; i++) if (ev[i].data.ptr) serve(ev[i].data.ptr); else accept_one(listener, ep);
  }
}
