<?php
// PHP's client against the server: client.php HOST PORT FILE first|after
[, $host, $port, $path, $phase] = $argv;
$checks = 0;

function check($got, $wanted)
{
    global $checks;
    $checks++;
    if ($got !== $wanted) {
        fprintf(STDERR, "%.200s, not %.200s\n%s\n", var_export($got, true), var_export($wanted, true),
            (new Exception())->getTraceAsString());
        exit(1);
    }
}

$client = new Memcached();
$client->setOption(Memcached::OPT_BINARY_PROTOCOL, false);
$client->setOption(Memcached::OPT_COMPRESSION, false);
$client->setOption(Memcached::OPT_PREFIX_KEY, 'php-');
$client->addServer($host, (int) $port);
$large = file_get_contents($path);

if ($phase === 'first') {
    check($client->set('a', 'one'), true);
    check($client->get('a'), 'one');
    check($client->get('absent'), false);
    check($client->getResultCode(), Memcached::RES_NOTFOUND);
    check($client->add('a', 'no'), false);
    check($client->add('b', 'two'), true);
    check($client->replace('c', 'no'), false);
    check($client->replace('b', 'zwei'), true);
    check($client->getMulti(['a', 'b', 'c']), ['a' => 'one', 'b' => 'zwei']);
    $many = [];
    for ($i = 0; $i < 200; $i++) {
        $many["m$i"] = str_repeat((string) $i, $i);
    }
    check($client->setMulti($many), true);
    check($client->getMulti(array_keys($many), Memcached::GET_PRESERVE_ORDER), $many);
    check($client->append('a', '+'), true);
    check($client->prepend('a', '-'), true);
    check($client->get('a'), '-one+');
    check($client->set('n', 5), true);
    check($client->increment('n', 7), 12);
    check($client->decrement('n', 20), 0);
    check($client->set('cas', 'old'), true);
    $old = $client->get('cas', null, Memcached::GET_EXTENDED);
    check($old['value'], 'old');
    check($client->cas($old['cas'], 'cas', 'new'), true);
    check($client->cas($old['cas'], 'cas', 'late'), false);
    check($client->getResultCode(), Memcached::RES_DATA_EXISTS);
    check($client->get('cas'), 'new');
    check($client->set('types', ['list' => [1, 2.5, null, true]]), true);
    check($client->get('types'), ['list' => [1, 2.5, null, true]]);
    check($client->delete('b'), true);
    check($client->get('b'), false);
    check($client->set('large', $large), true);
    check($client->get('large') === $large, true);
    check($client->set('empty', ''), true);
    check($client->get('empty'), '');
    check($client->set('short', 's', 50), true);
    check($client->set('touched', 't', 50), true);
    check($client->touch('touched', 500), true);
    check($client->get('short'), 's');
} else {
    check($client->get('short'), false);
    check($client->get('touched'), 't');
    check($client->get('large') === $large, true);
}
print "php: $checks checks\n";
