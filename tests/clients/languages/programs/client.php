<?php
// PHP's curl extension, one handle until an answer is left. Orders and answers: tests/clients/languages/driver.py.

$handle = curl_init();
while (($order = fgets(STDIN)) !== false) {
    [$verb, $url, $body] = explode(" ", rtrim($order, "\n"), 3);
    curl_setopt_array($handle, [
        CURLOPT_URL => $url,
        CURLOPT_POSTFIELDS => $body,
        CURLOPT_HTTPHEADER => [
            "Authorization: Bearer " . getenv("OPENAI_API_KEY"),
            "Content-Type: application/json",
        ],
        CURLOPT_RETURNTRANSFER => true,
    ]);
    if ($verb === "whole") {
        $text = curl_exec($handle);
        $text !== false or exit(curl_error($handle) . "\n");
        echo "status ", curl_getinfo($handle, CURLINFO_RESPONSE_CODE), "\n";
        foreach (explode("\n", rtrim($text, "\n")) as $line) {
            echo "| $line\n";
        }
    } else {
        $rest = null;
        curl_setopt($handle, CURLOPT_WRITEFUNCTION, function ($handle, $part) use (&$rest, $verb) {
            if ($rest === null) {
                echo "status ", curl_getinfo($handle, CURLINFO_RESPONSE_CODE), "\n";
            }
            $lines = explode("\n", $rest . $part);
            $rest = array_pop($lines);
            foreach ($lines as $line) {
                echo "| $line\n";
            }
            return $verb === "leave" ? 0 : strlen($part);
        });
        curl_exec($handle) || $verb === "leave" or exit(curl_error($handle) . "\n");
        echo $rest == "" ? "" : "| $rest\n";
        // Over HTTP/2 libcurl does not say that it has left before the handle is used again, or is gone.
        $handle = $verb === "leave" ? curl_init() : $handle;
    }
    echo "end\n";
}
