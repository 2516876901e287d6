#!/usr/bin/perl
# A Perl client against the server: client.pl Cache::Memcached[::Fast] HOST PORT FILE first|after
use strict;
use warnings;

my ($which, $host, $port, $path, $phase) = @ARGV;
my $name = $which eq 'Cache::Memcached' ? 'perl' : 'perl-fast';
my $checks = 0;

eval "require $which; 1" or die $@;
my $fast = $which eq 'Cache::Memcached::Fast';
my $client = $which->new({
    servers => ["$host:$port"], namespace => "$name-",
    $fast ? (max_size => 1 << 26, io_timeout => 60, connect_timeout => 10) : (select_timeout => 60),
});

sub check {
    my ($got, $wanted) = @_;
    $checks++;
    return if defined $got ? defined $wanted && $got eq $wanted : !defined $wanted;
    die sprintf("%s, not %s at line %d\n", map({ defined $_ ? substr($_, 0, 99) : 'nothing' } $got, $wanted),
        (caller)[2]);
}
sub holds { check($_[0] ? 1 : 0, $_[1]) }

open my $in, '<:raw', $path or die "$path: $!";
my $large = do { local $/; <$in> };

if ($phase eq 'first') {
    holds($client->set('a', 'one'), 1);
    check($client->get('a'), 'one');
    check($client->get('absent'), undef);
    holds($client->add('a', 'no'), 0);
    holds($client->add('b', 'two'), 1);
    holds($client->replace('c', 'no'), 0);
    holds($client->replace('b', 'zwei'), 1);
    my $got = $client->get_multi(qw(a b c));
    check(join(' ', map { "$_=$got->{$_}" } sort keys %$got), 'a=one b=zwei');
    $client->set("m$_", $_ x $_) for 0 .. 199;
    $got = $client->get_multi(map { "m$_" } 0 .. 199);
    check($got->{"m$_"}, $_ x $_) for 0 .. 199;
    holds($client->append('a', '+'), 1);
    holds($client->prepend('a', '-'), 1);
    check($client->get('a'), '-one+');
    $client->set('n', '5');
    check($client->incr('n', 7), 12);
    check($client->decr('n', 20) + 0, 0);
    if ($fast) {
        $client->set('cas', 'old');
        my $old = $client->gets('cas');
        check($old->[1], 'old');
        holds($client->cas('cas', $old->[0], 'new'), 1);
        holds($client->cas('cas', $old->[0], 'late'), 0);
        check($client->get('cas'), 'new');
    }
    holds($client->delete('b'), 1);
    check($client->get('b'), undef);
    holds($client->set('large', $large), 1);
    check($client->get('large'), $large);
    holds($client->set('empty', ''), 1);
    check($client->get('empty'), '');
    holds($client->set('short', 's', 50), 1);
    holds($client->set('touched', 't', 50), 1);
    $fast ? holds($client->touch('touched', 500), 1) : holds($client->set('touched', 't', 500), 1);
    check($client->get('short'), 's');
} else {
    check($client->get('short'), undef);
    check($client->get('touched'), 't');
    check($client->get('large'), $large);
}
print "$name: $checks checks\n";
