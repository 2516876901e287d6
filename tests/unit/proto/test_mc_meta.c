/* The meta commands: what their flags become, and how they are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/mcevents.h"
#include "lib/mctranscript.h"

static void mg__reads_every_flag(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"mg a\r\n", "mg key=a delta=1\n"},
        {"mg a v\r\n", "mg key=a order=v delta=1\n"},
        {"mg a s v t c f h l k u q\r\n", "mg key=a order=svtcfhlkuq delta=1 noreply\n"},
        {"mg a N30 R10 T-1 Oabc\r\n",
         "mg key=a order=NRTO exp=-1 vivify=30 recache=10 delta=1 opaque=Oabc\n"},
        {"mg a E99 v\r\n", "mg key=a order=Ev newcas=99 delta=1\n"},
        {"mg Zm9v b k v\r\n", "mg binary=foo order=bkv delta=1\n"},
        {"mg AAEC b\r\n", "mg binary=\\00\\01\\02 order=b delta=1\n"},
        {"mg a Lpath/ Phint\r\n", "mg key=a order=LP delta=1\n"},
        {"mg\r\n", "! ERROR\n"},
        {"mg a v v\r\n", "! CLIENT_ERROR duplicate flag\n"},
        {"mg a v vx\r\n", "! CLIENT_ERROR duplicate flag\n"},
        {"mg a \x80\r\n", "! CLIENT_ERROR duplicate flag\n"},
        {"mg a !\r\n", "! CLIENT_ERROR invalid flag\n"},
        {"mg a z\r\n", "! CLIENT_ERROR invalid flag\n"},
        {"mg a Nx q\r\n", "! CLIENT_ERROR bad token in command line format\n"},
        {"mg a T\r\n", "! CLIENT_ERROR bad token in command line format\n"},
        {"mg a Rsoon\r\n", "! CLIENT_ERROR bad token in command line format\n"},
        {"mg a*b b\r\n", "! CLIENT_ERROR error decoding key\n"},
        {"mg a O0123456789012345678901234567890\r\n",
         "mg key=a order=O delta=1 opaque=O0123456789012345678901234567890\n"},
        {"mg a O01234567890123456789012345678901\r\n", "! CLIENT_ERROR opaque token too long\n"},
        {"mg a s v t c f h l k u q b N1 R1 T1 O1 F1 C1\r\n", "! CLIENT_ERROR error decoding key\n"},
        {"mg a s v t c f h l k u q x N1 R1 T1 O1 F1 C1\r\n",
         "mg key=a order=svtcfhlkuqxNRTOFC flags=1 exp=1 vivify=1 recache=1 cas=1 delta=1 "
         "opaque=O1 noreply\n"},
        {"mg a s v t c f h l k u q x N1 R1 T1 O1 F1 C1 I\r\n",
         "! CLIENT_ERROR options flags are too long\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void ms__announces_its_value(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"ms a 3\r\nabc\r\n", "ms key=a mode=S size=3 delta=1\nvalue abc\ngood\n"},
        {"ms a 3 T60 F7 c k Oq1 q\r\nabc\r\n",
         "ms key=a order=TFckOq mode=S flags=7 exp=60 size=3 delta=1 opaque=Oq1 noreply\n"
         "value abc\ngood\n"},
        {"ms a 1 C7 I E8\r\nx\r\n",
         "ms key=a order=CIE mode=S size=1 cas=7 newcas=8 delta=1\nvalue x\ngood\n"},
        {"ms a 1 MA N60\r\nx\r\n",
         "ms key=a order=MN mode=A vivify=60 size=1 delta=1\nvalue x\ngood\n"},
        {"ms a 1 ME\r\nx\r\n", "ms key=a order=M mode=E size=1 delta=1\nvalue x\ngood\n"},
        {"ms Zm9v 1 b MP\r\nx\r\n",
         "ms binary=foo order=bM mode=P size=1 delta=1\nvalue x\ngood\n"},
        {"ms a 1\r\nxyz\r\n", "ms key=a mode=S size=1 delta=1\nvalue x\nbad\n! ERROR\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

/* What is refused once the length is known is swallowed with its value. */
static void ms__swallows_the_value_of_what_it_refuses(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"ms a 3 z\r\nabc\r\nmn\r\n", "! CLIENT_ERROR invalid flag\nmn rest=\n"},
        {"ms a 3 q q\r\nabc\r\nmn\r\n", "! CLIENT_ERROR duplicate flag\nmn rest=\n"},
        {"ms a 3 MZ q\r\nabc\r\nmn\r\n", "! CLIENT_ERROR invalid mode for ms M token\nmn rest=\n"},
        {"ms a 3 Mset\r\nabc\r\nmn\r\n", "! CLIENT_ERROR incorrect length for M token\nmn rest=\n"},
        {"ms a 3 Fx\r\nabc\r\nmn\r\n", "! CLIENT_ERROR bad command line format\nmn rest=\n"},
        {"ms a 3 Cx\r\nabc\r\nmn\r\n",
         "! CLIENT_ERROR bad token in command line format\nmn rest=\n"},
        {"ms a 3 Ex\r\nabc\r\nmn\r\n",
         "! CLIENT_ERROR bad token in command line format\nmn rest=\n"},
        {"ms a 2 O01234567890123456789012345678901\r\nab\r\nmn\r\n",
         "! CLIENT_ERROR opaque token too long\nmn rest=\n"},
        {"ms a! 2 b\r\nab\r\nmn\r\n", "! CLIENT_ERROR error decoding key\nmn rest=\n"},
        {"ms\r\n", "! ERROR\n"},
        {"ms a\r\nmn\r\n", "! CLIENT_ERROR bad command line format\nmn rest=\n"},
        {"ms a x\r\nmn\r\n", "! CLIENT_ERROR bad command line format\nmn rest=\n"},
        {"ms a -1\r\nmn\r\n", "! CLIENT_ERROR bad command line format\nmn rest=\n"},
        {"ms a 0 s v t c f h l k u q x N1 R1 T1 O1 F1 C1\r\n",
         "! CLIENT_ERROR options flags too long\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void md_ma_me_mn__are_read(void **state)
{
    (void)state;
    static const struct gb_mctranscript samples[] = {
        {"md a\r\n", "md key=a delta=1\n"},
        {"md a I T30 C5 q Ox k x\r\n",
         "md key=a order=ITCqOkx exp=30 cas=5 delta=1 opaque=Ox noreply\n"},
        {"md a z\r\n", "! CLIENT_ERROR invalid or duplicate flag\n"},
        {"md a C\r\n", "! CLIENT_ERROR invalid or duplicate flag\n"},
        {"ma a\r\n", "ma key=a mode=I delta=1\n"},
        {"ma a D5 MD v t c\r\n", "ma key=a order=DMvtc mode=D delta=5\n"},
        {"ma a M- N60 J100\r\n", "ma key=a order=MNJ mode=D vivify=60 delta=1 initial=100\n"},
        {"ma a M+\r\n", "ma key=a order=M mode=I delta=1\n"},
        {"ma a MX\r\n", "! CLIENT_ERROR invalid mode for ma M token\n"},
        {"ma a D-1\r\n", "! CLIENT_ERROR invalid or duplicate flag\n"},
        {"ma a Jx\r\n", "! CLIENT_ERROR invalid or duplicate flag\n"},
        {"me a\r\n", "me key=a\n"},
        {"me Zm9v b\r\n", "me binary=foo\n"},
        {"me !!!! b\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"me\r\n", "! CLIENT_ERROR bad command line format\n"},
        {"mn\r\n", "mn rest=\n"},
        {"mn and more\r\n", "mn rest=\\20and\\20more\n"},
        {"mx a\r\n", "! ERROR\n"},
    };
    GB_MCTRANSCRIPTS(samples);
}

static void meta_keys__are_at_most_250_bytes_as_they_come(void **state)
{
    (void)state;
    static const char *const verbs[] = {"mg", "md", "ma", "me", "ms"};
    char key[252];
    memset(key, 'k', sizeof(key));
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        char input[300];
        (void)snprintf(input, sizeof(input), "%s %.251s 1\r\n", verbs[i], key);
        gb_mctranscript_check(input, strlen(input), "! CLIENT_ERROR bad command line format\n");
    }
    char input[300];
    memset(key, 'a', sizeof(key));
    (void)snprintf(input, sizeof(input), "mg %.248s b\r\n", key);
    struct gb_mc_parser parser;
    struct gb_mc_event event;
    gb_mc_parser_init(&parser, 0);
    (void)gb_mc_parse(&parser, input, strlen(input), &event);
    assert_int_equal(event.kind, GB_MC_REQUEST);
    assert_int_equal(event.request.key.len, 186);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mg__reads_every_flag),
        cmocka_unit_test(ms__announces_its_value),
        cmocka_unit_test(ms__swallows_the_value_of_what_it_refuses),
        cmocka_unit_test(md_ma_me_mn__are_read),
        cmocka_unit_test(meta_keys__are_at_most_250_bytes_as_they_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
