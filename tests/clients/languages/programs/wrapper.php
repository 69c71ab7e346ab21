<?php
// PHP's http:// stream wrapper, a connection a request. Orders and answers: tests/clients/languages/driver.py.
//
// Of an answer in chunks it passes nothing on before it has 8 KiB or the end. HTTP/1.0 has no chunks.

while (($order = fgets(STDIN)) !== false) {
    [$verb, $url, $body] = explode(" ", rtrim($order, "\n"), 3);
    $context = stream_context_create(["http" => [
        "method" => "POST",
        "header" => [
            "Authorization: Bearer " . getenv("OPENAI_API_KEY"),
            "Content-Type: application/json",
        ],
        "content" => $body,
        "ignore_errors" => true,
        "protocol_version" => $verb === "leave" ? "1.0" : "1.1",
    ]]);
    if ($verb === "whole") {
        $text = file_get_contents($url, false, $context);
        $text !== false or exit("no answer\n");
        echo "status ", explode(" ", $http_response_header[0])[1], "\n";
        foreach (explode("\n", rtrim($text, "\n")) as $line) {
            echo "| $line\n";
        }
    } else {
        $answer = fopen($url, "r", false, $context) or exit("no answer\n");
        echo "status ", explode(" ", $http_response_header[0])[1], "\n";
        while (($line = fgets($answer)) !== false) {
            echo "| ", rtrim($line, "\n"), "\n";
            if ($verb === "leave") {
                break;
            }
        }
        fclose($answer);
    }
    echo "end\n";
}
