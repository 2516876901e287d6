/* How each server is started. */
#include "bench/net.h"

#include "base/bits.h"
#include "bench/explain.h"
#include "bench/net_null.h"
#include "bench/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- goblin -------------------------------------------------------------------------------- */

static int goblin_command(const struct gb_net_plan *plan, const struct gb_net_server *server,
                          struct gb_net_argv *argv, struct goblin_error *error)
{
    (void)error;
    gb_net_argv_add(argv, "serve");
    gb_net_argv_add(argv, "--store");
    gb_net_argv_add(argv, "%s/store", server->dir);
    gb_net_argv_add(argv, "--store-size");
    gb_net_argv_add(argv, "%llu", (unsigned long long)plan->store_bytes);
    gb_net_argv_add(argv, "--memory");
    gb_net_argv_add(argv, "%llu", (unsigned long long)plan->memory_bytes);
    gb_net_argv_add(argv, "--threads");
    gb_net_argv_add(argv, "%u", plan->threads);
    gb_net_argv_add(argv, plan->protocol == GB_NET_HTTP ? "--http" : "--memcache");
    gb_net_argv_add(argv, "%s:%u", gb_net_server_host(server), server->port);
    return 0;
}

/* ---- memcached ----------------------------------------------------------------------------- */

static int memcached_command(const struct gb_net_plan *plan, const struct gb_net_server *server,
                             struct gb_net_argv *argv, struct goblin_error *error)
{
    enum { HEADER_ROOM = 1024, ITEM_STEP = 1 << 20 }; /* a multiple of its chunks */
    uint64_t item = gb_align_up(plan->value_bytes + HEADER_ROOM, ITEM_STEP);
    (void)error;
    gb_net_argv_add(argv, "-l");
    gb_net_argv_add(argv, "%s", gb_net_server_host(server));
    gb_net_argv_add(argv, "-p");
    gb_net_argv_add(argv, "%u", server->port);
    gb_net_argv_add(argv, "-U");
    gb_net_argv_add(argv, "0");
    gb_net_argv_add(argv, "-t");
    gb_net_argv_add(argv, "%u", plan->threads);
    gb_net_argv_add(argv, "-m");
    gb_net_argv_add(argv, "%llu", (unsigned long long)(plan->memory_bytes / GB_MIB));
    gb_net_argv_add(argv, "-I");
    gb_net_argv_add(argv, "%llu", (unsigned long long)item);
    if (geteuid() == 0) {
        gb_net_argv_add(argv, "-u");
        gb_net_argv_add(argv, "root");
    }
    return 0;
}

/* As its documentation advises for values of this size: write buffers that hold the largest one. */
static int extstore_command(const struct gb_net_plan *plan, const struct gb_net_server *server,
                            struct gb_net_argv *argv, struct goblin_error *error)
{
    uint64_t buffer_mib = 4;
    while (buffer_mib * GB_MIB <= plan->value_bytes + GB_MIB) { /* a page is a multiple of it */
        buffer_mib *= 2;
    }
    int rc = memcached_command(plan, server, argv, error);
    gb_net_argv_add(argv, "-o");
    gb_net_argv_add(argv, "ext_path=%s/extstore:%lluM,ext_wbuf_size=%llu", server->dir,
                    (unsigned long long)(plan->store_bytes / GB_MIB),
                    (unsigned long long)buffer_mib);
    return rc;
}

/* ---- nginx --------------------------------------------------------------------------------- */

static void nginx_config(FILE *file, const struct gb_net_plan *plan,
                         const struct gb_net_server *server)
{
    static const char *const temporary[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
    fprintf(file,
            "daemon off;\n%sworker_processes %u;\npid %s/pid;\nerror_log %s/log warn;\n"
            "events { worker_connections 4096; }\n"
            "http {\n"
            "  access_log off;\n  default_type application/octet-stream;\n"
            "  sendfile on;\n  tcp_nopush on;\n  tcp_nodelay on;\n"
            "  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n"
            "  open_file_cache max=10000 inactive=1h;\n  open_file_cache_valid 1h;\n",
            geteuid() == 0 ? "user root;\n" : "", plan->threads, server->dir, server->dir);
    for (size_t i = 0; i < sizeof(temporary) / sizeof(temporary[0]); i++) {
        fprintf(file, "  %s_temp_path %s/%s;\n", temporary[i], server->dir, temporary[i]);
    }
    fprintf(file, "  server {\n    listen %s:%u;\n    root %s;\n  }\n}\n",
            gb_net_server_host(server), server->port, plan->files);
}

static int nginx_command(const struct gb_net_plan *plan, const struct gb_net_server *server,
                         struct gb_net_argv *argv, struct goblin_error *error)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/nginx.conf", server->dir);
    FILE *file = fopen(path, "we");
    if (!file) {
        gb_explain_set(error, "%s: %s", path, strerror(errno));
        return -errno;
    }
    nginx_config(file, plan, server);
    bool is_bad = ferror(file) != 0;
    if (fclose(file) != 0 || is_bad) {
        gb_explain_set(error, "%s: not written in full", path);
        return -EIO;
    }
    gb_net_argv_add(argv, "-p");
    gb_net_argv_add(argv, "%s", server->dir);
    gb_net_argv_add(argv, "-e");
    gb_net_argv_add(argv, "%s/log", server->dir);
    gb_net_argv_add(argv, "-c");
    gb_net_argv_add(argv, "%s", path);
    return 0;
}

/* ---- varnish ------------------------------------------------------------------------------- */

static int varnish_command(const struct gb_net_plan *plan, const struct gb_net_server *server,
                           struct gb_net_argv *argv, struct goblin_error *error)
{
    (void)error;
    gb_net_argv_add(argv, "-F");
    gb_net_argv_add(argv, "-j");
    gb_net_argv_add(argv, "none");
    gb_net_argv_add(argv, "-n");
    gb_net_argv_add(argv, "%s/work", server->dir);
    gb_net_argv_add(argv, "-a");
    gb_net_argv_add(argv, "%s:%u", gb_net_server_host(server), server->port);
    gb_net_argv_add(argv, "-T");
    gb_net_argv_add(argv, "none");
    gb_net_argv_add(argv, "-b");
    gb_net_argv_add(argv, "127.0.0.1:%u", plan->origin_port);
    gb_net_argv_add(argv, "-s");
    gb_net_argv_add(argv, "file,%s/storage,%lluM", server->dir,
                    (unsigned long long)(plan->store_bytes / GB_MIB));
    gb_net_argv_add(argv, "-p");
    gb_net_argv_add(argv, "default_ttl=31536000");
    gb_net_argv_add(argv, "-p");
    gb_net_argv_add(argv, "vsl_space=1M");
    return 0;
}

/* ---- all ----------------------------------------------------------------------------------- */

static const struct gb_net_peer peers[] = {
    {"goblin", GB_NET_PROGRAM_goblin, goblin_command, NULL},
    {"memcached", GB_NET_PROGRAM_memcached, memcached_command, NULL},
    {"extstore", GB_NET_PROGRAM_memcached, extstore_command, NULL},
    {"nginx", GB_NET_PROGRAM_nginx, nginx_command, NULL},
    {"varnish", GB_NET_PROGRAM_varnishd, varnish_command, NULL},
    {"null", GB_NET_PROGRAM_none, NULL, gb_net_null_serve},
};

const struct gb_net_peer *gb_net_peer_find(const char *name)
{
    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
        if (strcmp(peers[i].name, name) == 0) {
            return &peers[i];
        }
    }
    return NULL;
}
