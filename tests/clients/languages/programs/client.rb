# Ruby's net/http, one session an address. Orders and answers: tests/clients/languages/driver.py.

require "net/http"
require "uri"

$stdout.sync = true
sessions = {}

$stdin.each_line do |order|
  verb, url, body = order.chomp.split(" ", 3)
  uri = URI(url)
  place = "#{uri.host}:#{uri.port}"
  http = sessions[place] ||= Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https")
  request = Net::HTTP::Post.new(uri)
  request["Authorization"] = "Bearer #{ENV.fetch("OPENAI_API_KEY")}"
  request["Content-Type"] = "application/json"
  request.body = body
  if verb == "whole"
    response = http.request(request)
    puts "status #{response.code}"
    response.body.each_line { |line| puts "| #{line.chomp}" }
  else
    catch :left do
      http.request(request) do |response|
        puts "status #{response.code}"
        rest = +""
        response.read_body do |part|
          rest << part
          while (line = rest.slice!(/.*\n/))
            puts "| #{line.chomp}"
          end
          throw :left if verb == "leave"
        end
        puts "| #{rest}" unless rest.empty?
      end
    end
    sessions.delete(place).finish if verb == "leave"
  end
  puts "end"
end
