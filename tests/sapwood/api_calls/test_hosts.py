import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.api_calls.hosts import ApiHosts, Entry, is_public, parse_address
from sapwood.errors import CallRefused, ProgramError

HOSTS = ApiHosts.of(["api.example.com", "inside.example.com:8080", "127.0.0.1:9000", "[::1]:9000", "bücher.example"])


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/forecast?x=1",
        "http://api.example.com/",
        "https://API.Example.com:443",
        "http://inside.example.com:8080/",
        "http://127.0.0.1:9000/",
        "http://[::1]:9000/",
        "https://bücher.example/",
        "https://xn--bcher-kva.example/",
    ],
)
def test_what_is_listed_may_be_called(url):
    assert HOSTS.target(url).url.host


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com:8443/",  # another port
        "http://api.example.com:443/",  # of the other scheme
        "http://inside.example.com/",
        "https://evil.api.example.com/",
        "https://api.example.com.evil.org/",
        "https://api.example.com./",
        "https://user@api.example.com/",
        "https://user:password@api.example.com/",
        "https://evil.org\\@api.example.com/",
        "https://api.example.com\\.evil.org/",
        "https://api.example.com%2eevil.org/",
        "http://127.0.0.1/",
        "http://127.0.0.1:9001/",
        "http://0177.0.0.1:9000/",
        "http://2130706433:9000/",
        "http://127.1:9000/",
        "http://0x7f.0.0.1:9000/",
        "http://0.0.0.0:9000/",
        "http://[::ffff:127.0.0.1]:9000/",
        "http://localhost:9000/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "//api.example.com/",
        "api.example.com",
        "http:///",
        "http://[::1/",
        "http://api.example.com\n/",
        "",
    ],
)
def test_what_is_not_listed_is_refused(url):
    with pytest.raises(CallRefused):
        HOSTS.target(url)


@pytest.mark.parametrize("url", ["https://api.example.com/", "http://127.0.0.1:9000/"])
def test_nothing_is_listed_by_default(url):
    with pytest.raises(CallRefused):
        ApiHosts().target(url)


@pytest.mark.parametrize(
    "text",
    [
        *("", "https://api.example.com", "api.example.com/", "api.example.com/path", "api.example.com?x", "a b"),
        *("user@api.example.com", "2130706433:80", "127.1:80", "0x7f.0.0.1:80", "127.0.0.1.:80", "0177.0.0.1:80"),
        *("127.0.0.1", "10.0.0.1", "[::1]", "169.254.169.254", "0.0.0.0", "224.0.0.1"),
        *("*", "*.example.com", None, 5),
    ],
)
def test_a_list_with_something_else_in_it_is_refused(text):
    with pytest.raises(ProgramError):
        ApiHosts.of([text])


def test_one_host_is_no_list():
    with pytest.raises(ProgramError):
        ApiHosts.of("api.example.com")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "0.1.2.3"),
        *("100.64.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1"),
        *("::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1", "2001:db8::1"),
    ],
)
def test_no_name_without_a_port_may_be_there(address):
    assert not Entry.of("api.example.com").permits(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111"])
def test_public_addresses(address):
    assert Entry.of("api.example.com").permits(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.5", "192.168.7.7", "fd00::5", "8.8.8.8"])
def test_a_name_with_its_port_may_be_inside(address):
    assert Entry.of("inside.example.com:8080").permits(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:127.0.0.1"])
def test_a_name_with_its_port_is_no_way_to_the_machine_s_neighbours(address):
    assert not Entry.of("inside.example.com:8080").permits(ipaddress.ip_address(address))


def test_an_address_that_is_listed_itself_is_meant():
    assert Entry.of("169.254.169.254:80").permits(ipaddress.ip_address("169.254.169.254"))


@given(st.ip_addresses(v=4).filter(lambda address: not address.is_global))
def test_an_ipv4_address_that_is_not_public_is_not_so_inside_an_ipv6_address(address):
    number = int(address)
    for inside in (number, 0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
        assert not is_public(ipaddress.IPv6Address(inside))


@given(st.text())
def test_any_text_is_refused_or_listed(text):
    try:
        target = HOSTS.target(text)
    except CallRefused:
        return
    assert target.entry in HOSTS.entries


@given(st.ip_addresses())
def test_addresses_are_read(address):
    assert parse_address(str(address)) == address
