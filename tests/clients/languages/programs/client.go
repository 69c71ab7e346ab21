// Go's net/http with its default client. Orders and answers: tests/clients/languages/driver.py.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func carryOut(verb, url, body string) error {
	request, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Println("status", response.StatusCode)
	if verb == "whole" {
		text, err := io.ReadAll(response.Body)
		for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			fmt.Println("|", line)
		}
		return err
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		fmt.Println("|", lines.Text())
		if verb == "leave" {
			return nil
		}
	}
	return lines.Err()
}

func main() {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		order := strings.SplitN(orders.Text(), " ", 3)
		if err := carryOut(order[0], order[1], order[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("end")
	}
}
