/* The memcached commands about the server: what they ask for, and the fixed answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "proto/mc_admin.h"
#include "proto/mc_parse.h"

static void read_request(const char *line, struct gb_mc_event *event)
{
    struct gb_mc_parser parser;
    gb_mc_parser_init(&parser, 0);
    (void)gb_mc_parse(&parser, line, strlen(line), event);
    assert_int_equal(event->kind, GB_MC_REQUEST);
}

static void check_answer(const char *line, const char *expected)
{
    struct gb_mc_event event;
    read_request(line, &event);
    struct gb_mc_text answer = gb_mc_admin_answer(&event.request);
    if (!gb_mc_is(answer, expected)) {
        fail_msg("\"%s\" was answered with \"%.*s\"", line, (int)answer.len, answer.data);
    }
}

static void admin_answer__is_memcacheds_with_nothing_to_set(void **state)
{
    (void)state;
    static const char *const samples[][2] = {
        {"verbosity 1\r\n", "OK"},
        {"verbosity x\r\n", "CLIENT_ERROR bad command line format"},
        {"cache_memlimit 64\r\n", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"},
        {"cache_memlimit 7\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"},
        {"cache_memlimit 1000000001\r\n",
         "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"},
        {"cache_memlimit x\r\n", "ERROR"},
        {"slabs reassign 1 2\r\n", "CLIENT_ERROR slab reassignment disabled"},
        {"slabs automove 1\r\n", "OK"},
        {"slabs automove 3\r\n", "ERROR"},
        {"slabs automove x\r\n", "CLIENT_ERROR bad command line format"},
        {"slabs automove ratio 0.8\r\n", "OK"},
        {"slabs automove ratio\r\n", "ERROR"},
        {"slabs\r\n", "ERROR"},
        {"shutdown\r\n", "ERROR: shutdown not enabled"},
        {"lru_crawler enable\r\n", "OK"},
        {"lru_crawler disable\r\n", "OK"},
        {"lru_crawler crawl all\r\n", "OK"},
        {"lru_crawler crawl 99\r\n", "BADCLASS invalid class id"},
        {"lru_crawler sleep 100\r\n", "OK"},
        {"lru_crawler sleep 1000001\r\n", "CLIENT_ERROR sleep must be one second or less"},
        {"lru_crawler sleep x\r\n", "CLIENT_ERROR bad command line format"},
        {"lru_crawler tocrawl 5000000\r\n", "OK"},
        {"lru_crawler metadump all\r\n", ""},
        {"lru_crawler mgdump hash\r\n", ""},
        {"lru_crawler metadump 99\r\n", "BADCLASS invalid class id"},
        {"lru_crawler metadump\r\n", "ERROR"},
        {"lru_crawler\r\n", "ERROR"},
        {"lru_crawler dance all\r\n", "ERROR"},
        {"stats\r\n", ""},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        check_answer(samples[i][0], samples[i][1]);
    }
}

static void admin_dumps__tells_the_two_apart(void **state)
{
    (void)state;
    struct gb_mc_event event;
    struct gb_mc_text answer;
    bool mgdump;
    read_request("lru_crawler metadump all\r\n", &event);
    assert_true(gb_mc_admin_dumps(&event.request, &mgdump, &answer));
    assert_false(mgdump);
    read_request("lru_crawler mgdump all\r\n", &event);
    assert_true(gb_mc_admin_dumps(&event.request, &mgdump, &answer));
    assert_true(mgdump);
    read_request("lru_crawler sleep 5\r\n", &event);
    assert_false(gb_mc_admin_dumps(&event.request, &mgdump, &answer));
}

static void admin_stats__knows_its_words(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum gb_mc_stats what;
        const char *answer;
    } samples[] = {
        {"stats\r\n", GB_MC_STATS_GENERAL, ""},
        {"stats items\r\n", GB_MC_STATS_ITEMS, ""},
        {"stats slabs\r\n", GB_MC_STATS_SLABS, ""},
        {"stats settings\r\n", GB_MC_STATS_SETTINGS, ""},
        {"stats conns\r\n", GB_MC_STATS_CONNS, ""},
        {"stats sizes\r\n", GB_MC_STATS_SIZES, ""},
        {"stats sizes_enable\r\n", GB_MC_STATS_SIZES_ENABLE, ""},
        {"stats sizes_disable\r\n", GB_MC_STATS_SIZES_DISABLE, ""},
        {"stats reset\r\n", GB_MC_STATS_RESET, ""},
        {"stats detail on\r\n", GB_MC_STATS_REFUSED, "OK"},
        {"stats detail dump\r\n", GB_MC_STATS_REFUSED, "END"},
        {"stats detail\r\n", GB_MC_STATS_REFUSED, "CLIENT_ERROR usage: stats detail on|off|dump"},
        {"stats cachedump 1 10\r\n", GB_MC_STATS_CACHEDUMP, ""},
        {"stats cachedump 2 10\r\n", GB_MC_STATS_REFUSED, "END"},
        {"stats cachedump 1\r\n", GB_MC_STATS_REFUSED, "CLIENT_ERROR bad command line"},
        {"stats cachedump x 1\r\n", GB_MC_STATS_REFUSED, "CLIENT_ERROR bad command line format"},
        {"stats cachedump 64 1\r\n", GB_MC_STATS_REFUSED, "CLIENT_ERROR Illegal slab id"},
        {"stats nonsense\r\n", GB_MC_STATS_REFUSED, "ERROR"},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct gb_mc_event event;
        struct gb_mc_stats_request stats;
        read_request(samples[i].line, &event);
        gb_mc_admin_stats(&event.request, &stats);
        if (stats.what != samples[i].what || !gb_mc_is(stats.answer, samples[i].answer)) {
            fail_msg("\"%s\" became %d, \"%.*s\"", samples[i].line, (int)stats.what,
                     (int)stats.answer.len, stats.answer.data);
        }
    }
}

static void admin_topics__are_a_set(void **state)
{
    (void)state;
    struct gb_mc_event event;
    unsigned topics;
    read_request("watch\r\n", &event);
    assert_int_equal(gb_mc_admin_topics(&event.request, &topics), 0);
    assert_int_equal(topics, GB_MC_WATCH_FETCHERS);
    read_request("watch mutations evictions connevents deletions rawcmds\r\n", &event);
    assert_int_equal(gb_mc_admin_topics(&event.request, &topics), 0);
    assert_int_equal(topics, GB_MC_WATCH_MUTATIONS | GB_MC_WATCH_EVICTIONS |
                                 GB_MC_WATCH_CONNECTIONS | GB_MC_WATCH_DELETIONS);
    read_request("watch nothing\r\n", &event);
    assert_int_equal(gb_mc_admin_topics(&event.request, &topics), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admin_answer__is_memcacheds_with_nothing_to_set),
        cmocka_unit_test(admin_dumps__tells_the_two_apart),
        cmocka_unit_test(admin_stats__knows_its_words),
        cmocka_unit_test(admin_topics__are_a_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
