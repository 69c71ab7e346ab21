// The JDK's HttpClient with its defaults, which offers HTTP/2. Orders and answers: tests/clients/languages/driver.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

class Client {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newHttpClient();
        var orders = new BufferedReader(new InputStreamReader(System.in));
        for (String order; (order = orders.readLine()) != null; System.out.println("end")) {
            var parts = order.split(" ", 3);
            var request = HttpRequest.newBuilder(URI.create(parts[1]))
                .header("Authorization", "Bearer " + System.getenv("OPENAI_API_KEY"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(parts[2]))
                .build();
            if (parts[0].equals("whole")) {
                var response = client.send(request, HttpResponse.BodyHandlers.ofString());
                System.out.println("status " + response.statusCode());
                response.body().lines().forEach(line -> System.out.println("| " + line));
                continue;
            }
            var response = client.send(request, HttpResponse.BodyHandlers.ofLines());
            System.out.println("status " + response.statusCode());
            try (var lines = response.body()) {
                for (var each = lines.iterator(); each.hasNext();) {
                    System.out.println("| " + each.next());
                    if (parts[0].equals("leave")) break;
                }
            }
        }
    }
}
