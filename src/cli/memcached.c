/* memcached's command line: see memcached.h. */
#include "cli/memcached.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "base/bits.h"
#include "base/units.h"
#include "cli/say.h"

#define LEAST_MEMORY (16 * GB_MIB)
#define THREADS_MOST 64u
#define TEST_CLOCK   256 /* has no letter */

enum effect {
    EFFECT_PORT,
    EFFECT_LISTEN,
    EFFECT_TEXT,   /* const char *, borrowed from argv */
    EFFECT_COUNT,  /* unsigned */
    EFFECT_FLAG,   /* bool */
    EFFECT_OCTAL,  /* unsigned */
    EFFECT_MEMORY, /* in megabytes */
    EFFECT_ITEM,
    EFFECT_VERBOSE,
    EFFECT_UDP,
    EFFECT_PROTOCOL,
    EFFECT_EXTENDED,
    EFFECT_FACTOR,
    EFFECT_CHUNK,
    EFFECT_IGNORED, /* with a warning */
    EFFECT_REFUSED,
};

struct row {
    int letter;
    const char *name;
    const char *value; /* NULL: takes none */
    enum effect effect;
    size_t offset;
    const char *help; /* of an ignored or refused one: why */
};

#define AT(member) offsetof(struct gb_memcached_settings, member)

static const struct row rows[] = {
    {'p', "port", "num", EFFECT_PORT, 0, "TCP port to listen on (default: 11211, -1: any, 0: off)"},
    {'s', "unix-socket", "file", EFFECT_TEXT, AT(unix_path),
     "unix socket to listen on (disables network support)"},
    {'a', "unix-mask", "mask", EFFECT_OCTAL, AT(unix_mode),
     "access mask for the unix socket, in octal (default: 700)"},
    {'A', "enable-shutdown", NULL, EFFECT_FLAG, AT(shutdown), "obey the shutdown command"},
    {'l', "listen", "addr", EFFECT_LISTEN, 0,
     "address to listen on, with or without a port; several, parted by commas (default: all);\n"
     "    notls:<addr> is without TLS despite -Z"},
    {'d', "daemon", NULL, EFFECT_FLAG, AT(daemon), "run as a daemon"},
    {'r', "enable-coredumps", NULL, EFFECT_FLAG, AT(core_dumps), "maximize core file limit"},
    {'u', "user", "user", EFFECT_TEXT, AT(user), "assume identity of <user> (only as root)"},
    {'m', "memory-limit", "num", EFFECT_MEMORY, 0,
     "memory in megabytes, for everything (default: 64)"},
    {'M', "disable-evictions", NULL, EFFECT_FLAG, AT(keep_all),
     "return an error when the store is full instead of evicting"},
    {'c', "conn-limit", "num", EFFECT_COUNT, AT(connections),
     "max simultaneous connections (default: 1024)"},
    {'k', "lock-memory", NULL, EFFECT_FLAG, AT(lock_memory), "lock down all paged memory"},
    {'v', "verbose", NULL, EFFECT_VERBOSE, 0, "log warnings; -vv logs events too"},
    {'h', "help", NULL, EFFECT_FLAG, AT(help), "print this help and exit"},
    {'V', "version", NULL, EFFECT_FLAG, AT(version), "print version and exit"},
    {'i', "license", NULL, EFFECT_FLAG, AT(license), "print the license and exit"},
    {'P', "pidfile", "file", EFFECT_TEXT, AT(pid_file), "save PID in <file>"},
    {'t', "threads", "num", EFFECT_COUNT, AT(threads),
     "number of threads to use (default: one per core)"},
    {'R', "max-reqs-per-event", "num", EFFECT_COUNT, AT(turn_commands),
     "requests of a connection before others have their turn (default: 20)"},
    {'b', "listen-backlog", "num", EFFECT_COUNT, AT(backlog),
     "set the backlog queue limit (default: 1024)"},
    {'B', "protocol", "name", EFFECT_PROTOCOL, 0, "protocol: ascii, or auto, which is the same"},
    {'I', "max-item-size", "num", EFFECT_ITEM, 0,
     "max value size (default: 1m, min: 1k, max: 1024m)"},
    {'F', "disable-flush-all", NULL, EFFECT_FLAG, AT(no_flush), "disable flush_all command"},
    {'X', "disable-dumping", NULL, EFFECT_FLAG, AT(no_dump),
     "disable stats cachedump and lru_crawler metadump"},
    {'W', "disable-watch", NULL, EFFECT_FLAG, AT(no_watch), "disable watch commands"},
    {'Y', "auth-file", "file", EFFECT_TEXT, AT(auth_file), "authenticate clients: lines user:pass"},
    {'Z', "enable-ssl", NULL, EFFECT_FLAG, AT(tls), "TLS on TCP ports; needs -o ssl_chain_cert"},
    {'o', "extended", "list", EFFECT_EXTENDED, 0,
     "comma separated list of\n"
     "    ext_path=<dir>:<size>  the store, kept over restarts; several: one per drive\n"
     "                           (default: a scratch directory)\n"
     "    idle_timeout=<sec>     timeout for idle connections (default: 0, none)\n"
     "    ssl_chain_cert=<file>  certificate chain, PEM\n"
     "    ssl_key=<file>         its key, PEM, if that is not in the same file\n"
     "    ssl_ca_cert=<file>     authorities for clients' certificates, PEM\n"
     "    ssl_verify_mode=<num>  clients' certificates: 0 none, 1 asked for, 2 or 3 required\n"
     "    ssl_min_version=<num>  3: TLS 1.3 only; else 1.2 too"},
    {TEST_CLOCK, "test-clock", NULL, EFFECT_FLAG, AT(test_clock),
     "obey debugtime N, which moves the clock of expiries by N seconds; for tests"},
    {'U', "udp-port", "num", EFFECT_UDP, 0, NULL},
    {'C', "disable-cas", NULL, EFFECT_IGNORED, 0, "every object has a version"},
    {'f', "slab-growth-factor", "num", EFFECT_FACTOR, 0, "there are no slab classes"},
    {'n', "slab-min-size", "bytes", EFFECT_CHUNK, 0, "there are no slab classes"},
    {'L', "enable-largepages", NULL, EFFECT_IGNORED, 0, "memory is mapped as the store needs it"},
    {'D', "delimiter", "char", EFFECT_IGNORED, 0, "there are no statistics by prefix"},
    {'N', "napi-ids", "num", EFFECT_IGNORED, 0, "connections are spread by their number"},
    {'e', "memory-file", "file", EFFECT_IGNORED, 0, "what -o ext_path=DIR:SIZE holds stays"},
    {'S', "enable-sasl", NULL, EFFECT_REFUSED, 0, "it needs the binary protocol; give -Y FILE"},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Suboptions of -o that tune what is not here. */
static const char *const ignored[] = {
    "maxconns_fast",
    "no_maxconns_fast",
    "hashpower",
    "tail_repair_time",
    "hash_algorithm",
    "lru_crawler",
    "no_lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "read_buf_mem_limit",
    "lru_maintainer",
    "no_lru_maintainer",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "slab_reassign",
    "no_slab_reassign",
    "slab_automove",
    "no_slab_automove",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_chunk_max",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "track_sizes",
    "no_hashexpand",
    "inline_ascii_resp",
    "no_inline_ascii_resp",
    "no_drop_privileges",
    "drop_privileges",
    "resp_obj_mem_limit",
    "sock_cookie_id",
    "slab_automove_freeratio",
    "ext_page_size",
    "ext_wbuf_size",
    "ext_threads",
    "ext_item_size",
    "ext_item_age",
    "ext_low_ttl",
    "ext_drop_unread",
    "ext_recache_rate",
    "ext_compact_under",
    "ext_drop_under",
    "ext_max_frag",
    "ext_max_sleep",
    "modern",
    "no_modern",
    "ssl_ciphers",
    "ssl_wbuf_size",
    "ssl_session_cache",
    "ssl_kernel_tls",
};

/* ---- values -------------------------------------------------------------------------------- */

static int parse_number(const char *text, unsigned long long most, unsigned long long *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || *out > most ? -EINVAL
                                                                                       : 0;
}

static int wrong(const struct row *row, const char *text, struct goblin_error *error)
{
    return gb_say_explain(error, "-%c %s: not a value for --%s", row->letter, text, row->name);
}

static int ignore(const struct row *row)
{
    (void)gb_say(GB_EXIT_OK, "memcached: -%c has no meaning here: %s", row->letter, row->help);
    return GOBLIN_OK;
}

/* What memcached checks of values that nothing here depends on. */
static int parse_slabs(const struct row *row, const char *text, struct goblin_error *error)
{
    if (row->effect == EFFECT_FACTOR && strtod(text, NULL) <= 1.0) {
        return gb_say_explain(error, "Factor must be greater than 1");
    }
    if (row->effect == EFFECT_CHUNK && strtol(text, NULL, 10) <= 0) {
        return gb_say_explain(error, "Chunk size must be greater than 0");
    }
    return ignore(row);
}

static int parse_udp(const struct row *row, const char *text, struct goblin_error *error)
{
    unsigned long long port = 0;
    if (strcmp(text, "-1") != 0 && parse_number(text, 65535, &port) != 0) {
        return wrong(row, text, error);
    }
    if (strcmp(text, "-1") == 0 || port != 0) {
        (void)gb_say(GB_EXIT_OK, "memcached: -U %s has no meaning here: UDP is not served", text);
    }
    return GOBLIN_OK;
}

static int parse_item(struct gb_memcached_settings *settings, const struct row *row,
                      const char *text, struct goblin_error *error)
{
    uint64_t bytes = 0;
    if (gb_units_parse_size(text, &bytes) != 0 || bytes < GB_KIB || bytes > GB_GIB) {
        return wrong(row, text, error);
    }
    settings->item_bytes = bytes;
    return GOBLIN_OK;
}

static int parse_memory(struct gb_memcached_settings *settings, const struct row *row,
                        const char *text, struct goblin_error *error)
{
    unsigned long long megabytes = 0;
    if (parse_number(text, 1u << 30, &megabytes) != 0) {
        return wrong(row, text, error);
    }
    settings->memory_bytes = megabytes * GB_MIB;
    if (settings->memory_bytes < LEAST_MEMORY) {
        (void)gb_say(GB_EXIT_OK, "memcached: -m %s: less than 16 is not enough; taking 16", text);
        settings->memory_bytes = LEAST_MEMORY;
    }
    return GOBLIN_OK;
}

static int parse_listen(struct gb_memcached_settings *settings, char *text,
                        struct goblin_error *error)
{
    for (char *rest = text, *item = NULL; (item = strsep(&rest, ",; ")) != NULL;) {
        bool plain = strncmp(item, "notls:", 6) == 0;
        item += plain ? 6 : 0;
        if (item[0] == '\0') {
            continue;
        }
        if (settings->listen_count == GB_MEMCACHED_LISTEN_MAX) {
            return gb_say_explain(error, "-l: at most %u addresses", GB_MEMCACHED_LISTEN_MAX);
        }
        settings->listen_plain[settings->listen_count] = plain;
        settings->listen[settings->listen_count++] = item;
    }
    return GOBLIN_OK;
}

/* "ext_path=DIR:SIZE". Where memcached's file still lies, the store is a directory beside it. */
static int parse_path(struct gb_memcached_settings *settings, const char *text,
                      struct goblin_error *error)
{
    const char *colon = text == NULL ? NULL : strrchr(text, ':');
    uint64_t bytes = 0;
    if (colon == NULL || colon == text || gb_units_parse_size(colon + 1, &bytes) != 0) {
        return gb_say_explain(error, "-o ext_path: give it as ext_path=DIR:SIZE, failed to parse");
    }
    if (settings->store_count == GB_MEMCACHED_STORES_MAX) {
        return gb_say_explain(error, "-o ext_path: at most %u of them", GB_MEMCACHED_STORES_MAX);
    }
    char *path = malloc((size_t)(colon - text) + sizeof(".goblin"));
    if (path == NULL) {
        return -ENOMEM;
    }
    memcpy(path, text, (size_t)(colon - text));
    path[colon - text] = '\0';
    struct stat status;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        memcpy(path + (colon - text), ".goblin", sizeof(".goblin"));
    }
    settings->stores[settings->store_count++] = path;
    settings->store_bytes += bytes;
    return GOBLIN_OK;
}

/* A digit that is a choice. */
static int parse_choice(const char *name, const char *value, unsigned most, unsigned *out,
                        struct goblin_error *error)
{
    unsigned long long number = 0;
    if (value == NULL || parse_number(value, most, &number) != 0) {
        return gb_say_explain(error, "-o %s: give it as a number from 0 to %u", name, most);
    }
    *out = (unsigned)number;
    return GOBLIN_OK;
}

/* Suboptions of -o that are files for TLS. */
static const struct {
    const char *name;
    size_t offset;
} tls_files[] = {
    {"ssl_chain_cert", AT(tls_files.chain)},
    {"ssl_key", AT(tls_files.key)},
    {"ssl_ca_cert", AT(tls_options.ca_file)},
};

static int take_tls_choice(struct gb_memcached_settings *settings, const char *name,
                           const char *value, struct goblin_error *error)
{
    static const enum gb_tls_clients clients[] = {GB_TLS_CLIENTS_ANY, GB_TLS_CLIENTS_ASKED,
                                                  GB_TLS_CLIENTS_REQUIRED, GB_TLS_CLIENTS_REQUIRED};
    unsigned number = 0;
    int result = GOBLIN_OK;
    if (strcmp(name, "ssl_verify_mode") == 0) {
        result = parse_choice(name, value, 3, &number, error);
        settings->tls_options.clients = clients[number];
    } else if (strcmp(name, "ssl_min_version") == 0) {
        result = parse_choice(name, value, 3, &number, error);
        settings->tls_options.newest_only = number == 3;
    } else if (value == NULL || (strcmp(value, "PEM") != 0 && strcmp(value, "1") != 0)) {
        result = gb_say_explain(error, "-o ssl_keyformat: only PEM is read");
    }
    return result;
}

static bool is_tls_choice(const char *name)
{
    return strcmp(name, "ssl_verify_mode") == 0 || strcmp(name, "ssl_min_version") == 0 ||
           strcmp(name, "ssl_keyformat") == 0;
}

static int take_suboption(struct gb_memcached_settings *settings, const char *name,
                          const char *value, struct goblin_error *error)
{
    unsigned long long number = 0;
    if (strcmp(name, "ext_path") == 0) {
        return parse_path(settings, value, error);
    }
    if (strcmp(name, "idle_timeout") == 0) {
        if (value == NULL || parse_number(value, 1u << 30, &number) != 0) {
            return gb_say_explain(error, "-o idle_timeout: give it in seconds");
        }
        settings->idle_ms = number == 0 ? -1 : (int64_t)number * 1000;
        return GOBLIN_OK;
    }
    if (is_tls_choice(name)) {
        return take_tls_choice(settings, name, value, error);
    }
    for (size_t i = 0; i < sizeof(tls_files) / sizeof(tls_files[0]); i++) {
        if (strcmp(name, tls_files[i].name) == 0) {
            memcpy((char *)settings + tls_files[i].offset, &value, sizeof(value));
            return value != NULL ? GOBLIN_OK : gb_say_explain(error, "-o %s: needs a file", name);
        }
    }
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        if (strcmp(name, ignored[i]) == 0) {
            (void)gb_say(GB_EXIT_OK, "memcached: -o %s has no meaning here", name);
            return GOBLIN_OK;
        }
    }
    return gb_say_explain(error, "-o: Illegal suboption \"%s\"", name);
}

static int parse_extended(struct gb_memcached_settings *settings, char *text,
                          struct goblin_error *error)
{
    int result = GOBLIN_OK;
    for (char *rest = text, *item = NULL; result >= 0 && (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, '=');
        if (value != NULL) {
            *value++ = '\0';
        }
        if (item[0] != '\0') {
            result = take_suboption(settings, item, value, error);
        }
    }
    return result;
}

static int parse_count(struct gb_memcached_settings *settings, const struct row *row,
                       const char *text, int base, struct goblin_error *error)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, base);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number == 0 || number > 1u << 20) {
        return wrong(row, text, error);
    }
    if (row->offset == AT(threads) && number > THREADS_MOST) {
        (void)gb_say(GB_EXIT_OK, "memcached: -t %s: there are at most %u loops", text,
                     THREADS_MOST);
        number = THREADS_MOST;
    }
    unsigned value = (unsigned)number;
    memcpy((char *)settings + row->offset, &value, sizeof(value));
    return GOBLIN_OK;
}

static int parse_port(struct gb_memcached_settings *settings, const struct row *row,
                      const char *text, struct goblin_error *error)
{
    unsigned long long port = 0;
    if (strcmp(text, "-1") == 0) {
        settings->port = -1;
    } else if (parse_number(text, 65535, &port) == 0) {
        settings->port = (int)port;
    } else {
        return wrong(row, text, error);
    }
    return GOBLIN_OK;
}

static int take_row(struct gb_memcached_settings *settings, const struct row *row, char *text,
                    struct goblin_error *error)
{
    switch (row->effect) {
    case EFFECT_PORT:
        return parse_port(settings, row, text, error);
    case EFFECT_LISTEN:
        return parse_listen(settings, text, error);
    case EFFECT_TEXT:
        memcpy((char *)settings + row->offset, &text, sizeof(const char *));
        return GOBLIN_OK;
    case EFFECT_COUNT:
        return parse_count(settings, row, text, 10, error);
    case EFFECT_OCTAL:
        return parse_count(settings, row, text, 8, error);
    case EFFECT_FLAG:
        memcpy((char *)settings + row->offset, &(bool){true}, sizeof(bool));
        return GOBLIN_OK;
    case EFFECT_MEMORY:
        return parse_memory(settings, row, text, error);
    case EFFECT_ITEM:
        return parse_item(settings, row, text, error);
    case EFFECT_VERBOSE:
        settings->verbose++;
        return GOBLIN_OK;
    case EFFECT_UDP:
        return parse_udp(row, text, error);
    case EFFECT_PROTOCOL:
        return strcmp(text, "ascii") == 0 || strcmp(text, "auto") == 0
                   ? GOBLIN_OK
                   : gb_say_explain(error, "-B %s: only ascii is served", text);
    case EFFECT_EXTENDED:
        return parse_extended(settings, text, error);
    case EFFECT_FACTOR:
    case EFFECT_CHUNK:
        return parse_slabs(row, text, error);
    case EFFECT_IGNORED:
        return ignore(row);
    case EFFECT_REFUSED:
        break;
    }
    return gb_say_explain(error, "-%c: %s", row->letter, row->help);
}

/* ---- the command line ---------------------------------------------------------------------- */

/* Which of its two codes memcached ends with when the option's value is wrong. */
static int refusal_of(enum effect effect)
{
    return effect == EFFECT_PORT || effect == EFFECT_UDP || effect == EFFECT_ITEM ||
                   effect == EFFECT_PROTOCOL || effect == EFFECT_REFUSED
               ? EX_USAGE
               : EXIT_FAILURE;
}

static const struct row *find_row(int letter)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].letter == letter) {
            return &rows[i];
        }
    }
    return NULL;
}

/* What of TLS can be judged only when all is read. */
static int finish_tls(struct gb_memcached_settings *settings, struct goblin_error *error)
{
    settings->refusal = EX_USAGE;
    for (unsigned i = 0; i < settings->listen_count; i++) {
        if (settings->listen_plain[i] && !settings->tls) {
            return gb_say_explain(error, "-l notls:%s: needs -Z", settings->listen[i]);
        }
    }
    if (!settings->tls) {
        return GOBLIN_OK;
    }
    if (settings->port == 0 || settings->unix_path != NULL) {
        return gb_say_explain(error, "-Z: needs a TCP port");
    }
    if (settings->tls_files.chain == NULL) {
        return gb_say_explain(error, "-Z: needs -o ssl_chain_cert=FILE");
    }
    if (settings->tls_options.clients != GB_TLS_CLIENTS_ANY &&
        settings->tls_options.ca_file == NULL) {
        return gb_say_explain(error, "-o ssl_verify_mode: needs -o ssl_ca_cert=FILE");
    }
    if (settings->tls_files.key == NULL) {
        settings->tls_files.key = settings->tls_files.chain;
    }
    settings->tls_options.certificates = &settings->tls_files;
    settings->tls_options.certificate_count = 1;
    return GOBLIN_OK;
}

int gb_memcached_parse(struct gb_memcached_settings *settings, int argc, char **argv,
                       struct goblin_error *error)
{
    struct option longs[ROWS + 1] = {0};
    char letters[2 * ROWS + 3] = ":";
    size_t len = 1;
    *settings = (struct gb_memcached_settings){
        .port = 11211,
        .unix_mode = 0700,
        .memory_bytes = 64 * GB_MIB,
        .item_bytes = GB_MIB,
        .connections = 1024,
        .turn_commands = 20,
        .backlog = 1024,
        .idle_ms = -1,
        .refusal = EXIT_FAILURE,
    };
    for (size_t i = 0; i < ROWS; i++) {
        int takes = rows[i].value != NULL ? required_argument : no_argument;
        longs[i] = (struct option){.name = rows[i].name, .has_arg = takes, .val = rows[i].letter};
        if (rows[i].letter != TEST_CLOCK) {
            letters[len++] = (char)rows[i].letter;
            letters[len] = ':';
            len += takes == required_argument;
        }
    }
    letters[len] = '\0';
    opterr = 0;
    optind = 0;
    int result = GOBLIN_OK;
    int answer = 0;
    /* -h, -V and -i end it there and then. */
    while (result >= 0 && !settings->help && !settings->version && !settings->license &&
           (answer = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct row *row = find_row(answer);
        if (row == NULL) {
            settings->refusal = EXIT_FAILURE;
            result = gb_say_explain(error, "%s: %s", argv[optind - 1],
                                    answer == ':' ? "needs a value" : "no such option");
        } else {
            settings->refusal = refusal_of(row->effect);
            result = take_row(settings, row, optarg, error);
        }
    }
    for (int i = optind; result >= 0 && i < argc; i++) {
        (void)gb_say(GB_EXIT_OK, "memcached: '%s' has no meaning here: it is no option", argv[i]);
    }
    return result < 0 ? result : finish_tls(settings, error);
}

void gb_memcached_free(struct gb_memcached_settings *settings)
{
    for (size_t i = 0; i < settings->store_count; i++) {
        free(settings->stores[i]);
    }
    settings->store_count = 0;
}

void gb_memcached_help(FILE *out)
{
    (void)fputs("goblin memcached: Goblin under memcached's command line\n\n", out);
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        if (row->effect >= EFFECT_FACTOR || row->help == NULL) {
            continue;
        }
        char letter[8] = "    ";
        if (row->letter != TEST_CLOCK) {
            (void)snprintf(letter, sizeof(letter), "-%c, ", row->letter);
        }
        int used = fprintf(out, "%s--%s%s%s%s", letter, row->name, row->value != NULL ? "=<" : "",
                           row->value != NULL ? row->value : "", row->value != NULL ? ">" : "");
        (void)fprintf(out, "%*s%s\n", used < 26 ? 26 - used : 1, "", row->help);
    }
}
